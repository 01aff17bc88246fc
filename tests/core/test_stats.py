"""Intervals hold near 0 and 1 (their coverage: test_coverage.py)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whale_core.stats import (
    difference_limits,
    exceeds_chance,
    mean_interval,
    paired_difference,
)


def test_all_failures_leave_room_above() -> None:
    interval = mean_interval(np.zeros(200))
    assert interval.low == 0.0
    assert 0.01 < interval.high < 0.03


def test_no_examples_is_an_error() -> None:
    with pytest.raises(ValueError, match="no scored examples"):
        mean_interval(np.array([]))


def test_exceeds_chance_is_one_sided() -> None:
    assert exceeds_chance(40, 64, 0.2) < 1e-6
    assert exceeds_chance(0, 64, 0.2) == 1.0


@settings(max_examples=40)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=40))
def test_a_mean_interval_is_around_its_mean_and_mirrored(passes: list[int]) -> None:
    means = np.array(passes) / 4
    interval, mirrored = mean_interval(means, 4), mean_interval(1 - means, 4)
    assert 0 <= interval.low <= interval.mean + 1e-9 and interval.mean - 1e-9 <= interval.high <= 1
    if abs(interval.mean - 0.5) > 1e-9:
        assert (mirrored.low, mirrored.high) == pytest.approx((1 - interval.high, 1 - interval.low))


def test_few_passes_that_fall_apart_do_not_narrow_the_interval() -> None:
    """Two of 480 draws are right, on different examples: no sign that draws are independent."""
    means = np.zeros(60)
    means[:2] = 1 / 8
    assert mean_interval(means, 8).high > 0.05
    assert mean_interval(means, 8).low < 0.0015


def test_one_draw_an_example_is_wilson_with_student_s_critical_value() -> None:
    means = np.repeat([1.0, 0.0], [12, 48])
    t2 = 2.0009953780882**2 / 59  # n - 1: the unbiased variance
    centre, reach = (0.2 + t2 / 2) / (1 + t2), np.sqrt(0.16 * t2 + t2 * t2 / 4) / (1 + t2)
    assert mean_interval(means).low == pytest.approx(centre - reach)
    assert mean_interval(means).high == pytest.approx(centre + reach)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=40),
)
def test_a_paired_interval_is_around_its_difference_and_turns_with_the_sides(
    pairs: list[tuple[int, int]],
) -> None:
    a, b = np.array(pairs).T / 4
    ab, ba = paired_difference(a, b), paired_difference(b, a)
    assert -1 <= ab.low <= ab.mean + 1e-9 and ab.mean - 1e-9 <= ab.high <= 1
    assert (ab.low, ab.high) == pytest.approx((-ba.high, -ba.low))


@pytest.mark.parametrize(("won", "lost", "n"), [(1, 12, 44), (0, 3, 60), (20, 9, 50)])
def test_one_draw_an_example_is_tango_s_score_interval(won: int, lost: int, n: int) -> None:
    """At a limit, the score statistic at the likeliest share of losses is the critical value."""
    sums = [np.array([float(each)]) for each in (won, lost, won + lost)]
    for limit in difference_limits(sums[0], sums[1], sums[2], n, 1.96):
        delta = float(limit[0])
        losses = np.linspace(max(0.0, -delta), (1 - delta) / 2, 400_002)[1:-1]
        likelihood = won * np.log(losses + delta) + lost * np.log(losses)
        likelihood += (n - won - lost) * np.log(1 - 2 * losses - delta)
        likeliest = losses[np.argmax(likelihood)]
        variance = n * (2 * likeliest + delta - delta * delta)
        assert abs(won - lost - n * delta) / np.sqrt(variance) == pytest.approx(1.96, rel=1e-3)


def test_draws_of_one_size_are_counted_in_units_of_it() -> None:
    a = np.repeat([0.5, 0.0, 0.25], [6, 4, 30])
    b = np.repeat([0.0, 0.5, 0.25], [6, 4, 30])
    halves = paired_difference(a, b)
    whole = paired_difference((a > b).astype(float), (b > a).astype(float))
    assert (halves.low, halves.high) == pytest.approx((whole.low / 2, whole.high / 2))


def test_examples_that_are_alike_still_leave_room() -> None:
    equal = paired_difference(np.ones(200), np.ones(200))
    assert equal.mean == 0.0 and equal.high == -equal.low
    assert 0.015 < equal.high < 0.025

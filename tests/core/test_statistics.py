"""pass@k, several comparisons, seeds, curves, choosing, phases, power."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whale_core.keys import generator
from whale_core.stats import (
    Curve,
    across_seeds,
    average,
    best_on_test,
    best_so_far,
    critical_value,
    detectable_gain,
    difference_limits,
    holm,
    luck_of_the_best,
    matches_across_seeds,
    mean_pass_at_k,
    pass_at_k,
    phase_lengths,
    power_of,
    rollouts_to_match,
    selection_optimism,
)


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.integers(1, 8))
def test_pass_at_k_counts_all_choices(draws: list[bool], k: int) -> None:
    if k > len(draws):
        with pytest.raises(ValueError, match="not defined"):
            pass_at_k(sum(draws), len(draws), k)
        return
    choices = list(combinations(draws, k))
    expected = sum(map(any, choices)) / len(choices)
    assert pass_at_k(sum(draws), len(draws), k) == pytest.approx(expected)


def test_pass_at_k_over_examples() -> None:
    passed, draws = np.array([0, 1, 4, 0]), np.array([4, 4, 4, 4])
    assert mean_pass_at_k(passed, draws, 1).mean == pytest.approx(5 / 16)
    found = mean_pass_at_k(passed, draws, 2)
    assert found.mean == pytest.approx((0 + 0.5 + 1 + 0) / 4)
    assert found.low < found.mean < found.high
    with pytest.raises(ValueError, match="not defined"):
        mean_pass_at_k(passed, draws, 5)


@pytest.mark.parametrize(
    ("given", "adjusted"),
    [
        # By hand: 4 x 0.005, 3 x 0.01, 2 x 0.03, then no smaller than the one before.
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.5, 0.9], [1.0, 1.0]),
        ([0.02, 0.02], [0.04, 0.04]),
        ([], []),
    ],
)
def test_holm(given: list[float], adjusted: list[float]) -> None:
    assert holm(given) == pytest.approx(adjusted)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_is_between_the_value_and_bonferroni(values: list[float]) -> None:
    for value, adjusted in zip(values, holm(values), strict=True):
        assert value <= adjusted <= min(1.0, value * len(values)) + 1e-12


def test_across_seeds_has_an_interval_from_five_on() -> None:
    assert across_seeds({1: 2.0, 0: 4.0}).interval is None
    five = across_seeds(dict(enumerate([1.0, 2.0, 3.0, 4.0, 5.0])))
    assert five.mean == 3.0 and five.interval is not None
    half = 2.776445105 * np.sqrt(2.5 / 5)  # Student's table, 4 degrees of freedom
    assert (five.interval.low, five.interval.high) == pytest.approx((3 - half, 3 + half))
    with pytest.raises(ValueError, match="no seeds"):
        across_seeds({})


def test_a_curve_shows_what_selection_would_take() -> None:
    curve = best_so_far([0, 10, 20, 20, 30], [0.1, 0.3, 0.2, 0.5, 0.4], [0.0, 0.9, 1.0, 0.6, 0.7])
    assert curve.rollouts.tolist() == [0, 10, 20, 30]
    assert curve.values.tolist() == [0.0, 0.9, 0.6, 0.6]
    assert curve.at(np.array([0, 9, 10, 25, 99])).tolist() == [0.0, 0.0, 0.9, 0.6, 0.6]
    assert np.isnan(curve.at(np.array([-1.0])))
    with pytest.raises(ValueError, match="rising order"):
        best_so_far([0, 5, 3], [0.1, 0.2, 0.3])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_best_by_selection_never_falls_on_selection(scores: list[float]) -> None:
    curve = best_so_far(list(range(len(scores))), scores)
    assert np.all(np.diff(curve.values) >= 0) and curve.values[-1] == max(scores)


def test_curves_are_averaged_where_all_are_defined() -> None:
    a, b = Curve([0, 10], [0.0, 1.0]), Curve([5, 20], [0.5, 0.6])
    band = average([a, b])
    assert band.rollouts.tolist() == [5, 10, 20]
    assert band.mean == pytest.approx([0.25, 0.75, 0.8])
    assert (band.low.tolist(), band.high.tolist()) == ([0.0, 0.5, 0.6], [0.5, 1.0, 1.0])
    assert not band.is_interval
    five = average([a, b, a, b, a])
    half = critical_value(5) * np.std([0, 0.5, 0, 0.5, 0], ddof=1) / np.sqrt(5)
    assert five.is_interval and five.high[0] - five.mean[0] == pytest.approx(half)


def test_rollouts_to_match() -> None:
    slow = Curve([0, 530_432, 606_208], [0.1, 0.48, 0.48])
    fast = Curve([0, 30_720, 46_080], [0.1, 0.48, 0.50])
    match = rollouts_to_match(fast, slow)
    assert match.rollouts == 30_720 and match.other_rollouts == 530_432
    assert match.share == pytest.approx(0.0579, abs=5e-5)  # the published 5.79 %
    never = rollouts_to_match(slow, fast)
    assert (never.rollouts, never.share, never.spent) == (None, None, 606_208)
    both = matches_across_seeds({0: fast, 1: slow, 2: fast}, {0: slow, 1: fast, 2: slow, 9: slow})
    assert both.reached == 2 and both.median_share == pytest.approx(0.0579, abs=5e-5)
    assert matches_across_seeds({0: fast, 1: slow}, {0: slow, 1: fast}).median_share is None
    with pytest.raises(ValueError, match="no seed"):
        matches_across_seeds({0: fast}, {1: slow})


def test_luck_of_the_best_is_what_equal_candidates_show() -> None:
    rng = np.random.default_rng(3)
    scores = (rng.random((16, 256)) < 0.4).astype(float)
    # method.md 5.6: 16 equal harnesses at 256 x 1 and p = 0.4: 1.77 standard errors of 3.1 points.
    assert luck_of_the_best(scores, 400) == pytest.approx(1.766 * np.sqrt(0.24 / 256), rel=0.1)
    assert luck_of_the_best(scores, 50) == luck_of_the_best(scores, 50)
    assert luck_of_the_best(np.full((5, 20), 0.5)) == 0.0
    assert luck_of_the_best(np.repeat([[0.0, 1.0]], 4, axis=0)) == 0.0  # difficulty alone


def test_optimism_is_what_the_winner_loses_on_fresh_draws() -> None:
    found = selection_optimism([0.5, 0.7], [0.4, 0.75])
    assert found.by_choice == pytest.approx((0.1, -0.05)) and found.mean == pytest.approx(0.025)
    with pytest.raises(ValueError, match="fresh one"):
        selection_optimism([], [])


def test_best_on_test_says_what_it_is() -> None:
    best = best_on_test({"a": 0.5, "b": 0.7})
    assert best.name == "b" and "best of 2 on test" in best.label and "biased" in best.label


def test_phase_lengths() -> None:
    found = phase_lengths([2, 6, 3, 5])
    assert found is not None
    assert (found.phases, found.shortest, found.median, found.longest) == (4, 2, 4.0, 6)
    assert phase_lengths([]) is None


def test_power_of_independent_draws_is_the_textbook_s() -> None:
    gain = detectable_gain(256, 1, 0.2)
    assert gain is not None
    spread = np.sqrt((0.16 + (0.2 + gain) * (0.8 - gain)) / 256)
    assert gain == pytest.approx((1.959964 + 0.841621) * spread, rel=1e-4)


@settings(max_examples=30)
@given(st.integers(10, 1000), st.integers(1, 16), st.floats(0.01, 0.6), st.floats(0, 0.9))
def test_more_examples_and_draws_see_smaller_gains(
    n: int, k: int, base: float, correlation: float
) -> None:
    gain = detectable_gain(n, k, base, correlation)
    for better in (
        detectable_gain(2 * n, k, base, correlation),
        detectable_gain(n, k + 1, base, correlation),
    ):
        assert gain is None or (better is not None and better <= gain + 1e-9)
    apart = detectable_gain(n, k, base, correlation, shared=False)
    assert apart is None or (gain is not None and gain <= apart + 1e-9)


@pytest.mark.parametrize(
    ("n", "k", "base", "correlation"), [(256, 1, 0.2, 0.0), (256, 8, 0.2, 0.3), (60, 8, 0.5, 0.3)]
)
def test_power_is_what_the_interval_has(n: int, k: int, base: float, correlation: float) -> None:
    """Both sides drawn from beta-binomials that rank the examples alike."""
    from scipy import special

    gain = detectable_gain(n, k, base, correlation)
    assert gain is not None
    assert power_of(n, k, base, gain, correlation) == pytest.approx(0.8, abs=1e-6)
    rng, times = generator("power", n, k), 1500
    rates = [np.full((1, 1), base + gain), np.full((1, 1), base)]
    if correlation:
        total, places = 1 / correlation - 1, (np.arange(2000) + 0.5) / 2000
        place = rng.integers(0, 2000, (times, n))
        rates = [
            special.betaincinv(r * total, (1 - r) * total, places)[place]
            for r in (base + gain, base)
        ]
    a, b = (rng.binomial(k, np.broadcast_to(rate, (times, n))) / k for rate in rates)
    d = a - b
    low, _ = difference_limits(
        np.maximum(d, 0).sum(1), np.maximum(-d, 0).sum(1), (d * d).sum(1), n, critical_value(n)
    )
    assert np.mean(low > 0) == pytest.approx(0.8, abs=0.04)

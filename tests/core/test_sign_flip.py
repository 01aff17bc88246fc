"""The paired test: exact where it says so, and never too sure."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from whale_core.stats import FLIPS, sign_flip_p

MOST = 10  # differences, so that all assignments of signs can be listed


def listed(differences: list[float]) -> float:
    """Return the share of all assignments of signs whose sum is no smaller."""
    sums = [
        sum(sign * each for sign, each in zip(signs, differences, strict=True))
        for signs in product((1, -1), repeat=len(differences))
    ]
    return sum(each >= sum(differences) - 1e-9 for each in sums) / len(sums)


@given(st.integers(1, 6), st.lists(st.integers(-6, 6), min_size=1, max_size=MOST))
def test_all_assignments_of_signs_are_counted(grid: int, values: list[int]) -> None:
    differences = [value / grid for value in values]
    assert sign_flip_p(np.array(differences)) == pytest.approx(listed(differences))


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 300))
def test_right_or_wrong_draws_are_mcnemar_s_exact_test(won: int, lost: int, same: int) -> None:
    p = sign_flip_p(np.repeat([1.0, -1.0, 0.0], [won, lost, same]))
    expected = stats.binomtest(won, won + lost, alternative="greater").pvalue if won + lost else 1.0
    assert p == pytest.approx(expected)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=60), st.integers(0, 59))
def test_a_larger_difference_never_makes_p_larger(values: list[int], place: int) -> None:
    better = list(values)
    better[place % len(values)] += 1
    assert sign_flip_p(np.array(better) / 4) <= sign_flip_p(np.array(values) / 4) + 1e-12


def test_rewards_on_no_grid_are_compared_with_random_signs() -> None:
    rng = np.random.default_rng(0)
    differences = rng.normal(0.1, 0.3, 12)
    exact = listed(differences.tolist())
    found = sign_flip_p(differences)
    assert abs(found - exact) < 4 * np.sqrt(exact * (1 - exact) / FLIPS)
    assert found == sign_flip_p(differences)  # no generator state
    assert sign_flip_p(np.full(40, np.pi)) == pytest.approx(1 / (1 + FLIPS))
    assert sign_flip_p(np.zeros(5)) == 1.0


def test_under_the_null_a_level_is_kept() -> None:
    """Two draws each of two equal harnesses whose luck is shared in part, on examples of all
    difficulties."""
    rng = np.random.default_rng(1)
    below = {0.05: 0, 0.1: 0, 0.2: 0}
    times = 1000
    for _ in range(times):
        rates = rng.beta(0.3, 0.7, 40)[:, None]
        shared = rng.random((40, 2))
        ours = np.where(rng.random((40, 2)) < 0.5, shared, rng.random((40, 2))) < rates
        theirs = np.where(rng.random((40, 2)) < 0.5, shared, rng.random((40, 2))) < rates
        p = sign_flip_p(ours.mean(1) - theirs.mean(1))
        for level in below:
            below[level] += p <= level
    for level, count in below.items():
        assert count / times <= level + 3 * np.sqrt(level / times)

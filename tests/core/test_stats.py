"""Intervals hold near 0 and 1; paired differences have their coverage."""

from __future__ import annotations

import numpy as np
import pytest

from whale_core.stats import effective_size, exceeds_chance, mean_interval, paired_difference


def test_all_failures_leave_room_above() -> None:
    interval = mean_interval(np.zeros(200))
    assert interval.low == 0.0
    assert 0.01 < interval.high < 0.03


def test_no_examples_is_an_error() -> None:
    with pytest.raises(ValueError, match="no scored examples"):
        mean_interval(np.array([]))


def test_effective_size_of_identical_draws_is_the_number_of_examples() -> None:
    means = np.repeat([0.0, 1.0], 50)
    assert effective_size(means) == pytest.approx(99, rel=0.02)


@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5, 0.97])
def test_coverage_of_the_mean(rate: float) -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(400):
        difficulty = rng.beta(2 * rate, 2 * (1 - rate), 200)
        means = rng.binomial(4, difficulty) / 4
        interval = mean_interval(means)
        hits += interval.low <= rate <= interval.high
    assert hits / 400 >= 0.925


@pytest.mark.parametrize(("low", "gain"), [(0.0, 0.05), (0.1, 0.1), (0.3, 0.0)])
def test_coverage_of_the_paired_difference(low: float, gain: float) -> None:
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(400):
        noise = rng.random((200, 4))
        shift = rng.uniform(-min(low, 0.1), min(low, 0.1), (200, 1))
        a = (noise < low + gain + shift).mean(1)
        b = (rng.random((200, 4)) < low + shift).mean(1)
        interval = paired_difference(a, b)
        hits += interval.low <= gain <= interval.high
    assert hits / 400 >= 0.925


def test_exceeds_chance_is_one_sided() -> None:
    assert exceeds_chance(40, 64, 0.2) < 1e-6
    assert exceeds_chance(0, 64, 0.2) == 1.0

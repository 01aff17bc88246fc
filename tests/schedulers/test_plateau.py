"""The published patience: when a phase ends, from hand-computed sequences and from its definition.

Weight phases of the published setting have window = minimum = patience = n steps; ``earliest`` is
then n + 1. Harness phases have no window, a minimum of 6 iterations, and a patience of 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale_schedulers.rules import Plateau

WEIGHTS = {"earliest": 4, "patience": 3, "window": 3}  # n = 3
FULL = {**WEIGHTS, "full_windows": True}
HARNESS = {"earliest": 6, "patience": 2, "most": 16}
SHORT = {"earliest": 3, "patience": 2}
RISING = [step / 100 for step in range(1, 31)]


def stop_of(rule: Plateau, signals: Sequence[float]) -> int | None:
    """Return the step at which ``rule`` ends the phase, None if it goes on after all signals."""
    return next((step for step, s in enumerate(signals, start=1) if rule.observe(s)), None)


TABLE: dict[str, tuple[dict[str, Any], list[float], int | None]] = {
    # means .2 .2 .2 .2: the first is the best, and the fourth step is the first that may end
    "ties are no new best": (WEIGHTS, [0.2, 0.2, 0.2, 0.2, 0.9], 4),
    # means .1 .2 .2 .217 .15 .117 .1: the best is at 4
    "a partial window at the start": (WEIGHTS, [0.1, 0.3, 0.2, 0.15, 0.1, 0.1, 0.1], 7),
    # means .9 .5 .4 .2: the first batch stays the best although the reward rises from step 2
    "a lucky first batch": (WEIGHTS, [0.9, 0.1, 0.2, 0.3, 0.4, 0.5], 4),
    # means – – .4 .2 .3 .4: the same rewards; the last mean equals the best in all but rounding
    "a lucky first batch, full windows": (FULL, [0.9, 0.1, 0.2, 0.3, 0.4, 0.5], 6),
    # means .3 .3 .3 .4 .4 .4 .3: the rise comes with the step at which it would have ended
    "a late rise, in time": (WEIGHTS, [0.3, 0.3, 0.3, 0.6, 0.3, 0.3, 0.3], 7),
    "a late rise, one step too late": (WEIGHTS, [0.3, 0.3, 0.3, 0.3, 0.9, 0.9], 4),
    "a steady rise": (WEIGHTS, RISING, None),
    "a fall": (WEIGHTS, [0.5, 0.4, 0.3, 0.2], 4),
    # means – – .2 .2 .2 .2: the first mean is the first best
    "flat, full windows": (FULL, [0.2] * 8, 6),
    # nothing is compared before the tenth step, so nothing can end
    "a full window longer than all else": (
        {**SHORT, "window": 10, "full_windows": True},
        [0.2] * 15,
        12,
    ),
    # means .4 .3 .2 .4: equal to the best at the first step that may end
    "a minimum longer than the patience": (
        {"earliest": 4, "patience": 2, "window": 2},
        [0.4, 0.2, 0.2, 0.6, 0.9],
        4,
    ),
    "the budget is less than the minimum": ({**WEIGHTS, "most": 2}, [0.2] * 5, 2),
    "the budget ends a rise": ({**WEIGHTS, "most": 6}, RISING, 6),
    "the plateau comes before the budget": ({**WEIGHTS, "most": 6}, [0.2] * 8, 4),
    # bests: .30 at 1, .36 at 3; .41 is exactly the margin above and not more
    "a margin": ({**SHORT, "min_gain": 0.05}, [0.30, 0.33, 0.36, 0.38, 0.41, 0.60], 5),
    "the same without a margin": (SHORT, [0.30, 0.33, 0.36, 0.38, 0.41, 0.60], None),
    # bests: .10 at 1, .16 at 3, .22 at 5: slow gains add up to more than the margin
    "a margin and a slow rise": (
        {**SHORT, "min_gain": 0.05},
        [0.10, 0.13, 0.16, 0.19, 0.22, 0.22, 0.22],
        7,
    ),
    "a search without success": (HARNESS, [0.3] * 9, 6),
    "a search that gains at 4": (HARNESS, [0.3, 0.3, 0.3, 0.4, 0.4, 0.4, 0.4], 6),
    "a search that gains at 5": (HARNESS, [0.3, 0.3, 0.3, 0.3, 0.4, 0.4, 0.4], 7),
    "a search that gains with the last before": (HARNESS, [0.3] * 5 + [0.4] * 4, 8),
    "a search that gains for ever": (HARNESS, RISING, 16),
}


@pytest.mark.parametrize("name", TABLE)
def test_hand_computed_stops(name: str) -> None:
    settings, signals, stop = TABLE[name]
    assert stop_of(Plateau(**settings), signals) == stop


@pytest.mark.parametrize("n", [1, 2, 5, 15])
def test_the_published_weight_phase_ends_at_n_plus_1_at_the_earliest(n: int) -> None:
    flat, falling = [0.5] * 40, [1 - step / 50 for step in range(40)]
    for signals in (flat, falling):
        assert stop_of(Plateau(n + 1, n, n), signals) == n + 1


# --- against the definition, word for word -------------------------------------------------------


def defined_stop(
    signals: Sequence[Fraction],
    minimum: int,
    patience: int,
    window: int,
    full_windows: bool,
    min_gain: Fraction,
    most: int | None,
) -> int | None:
    """Return the step that ends the phase: everything is computed anew, exactly, for each step."""
    for step in range(1, len(signals) + 1):
        best, best_step = None, None
        for at in range(1, step + 1):
            inside = signals[max(0, at - window) : at]
            if full_windows and len(inside) < window:
                continue
            mean = sum(inside, Fraction(0)) / len(inside)
            if best is None or mean - best > min_gain:
                best, best_step = mean, at
        if step == most:
            return step
        if step > minimum and best_step is not None and step - best_step >= patience:
            return step
    return None


rewards = st.one_of(
    st.integers(0, 8).map(lambda n: Fraction(n, 8)),
    st.integers(0, 3).map(lambda n: Fraction(n, 3)),  # no float is a third: sums round
    st.integers(0, 2048).map(lambda n: Fraction(n, 2048)),
    st.integers(0, 10).map(lambda n: Fraction(n, 10)),
)
lengths = st.integers(1, 8)
cases = st.fixed_dictionaries(
    {
        "minimum": st.integers(0, 8),
        "patience": lengths,
        "window": lengths,
        "full_windows": st.booleans(),
        "min_gain": st.sampled_from([0.0, 0.01, 0.1, 0.125]),
        "most": st.none() | st.integers(1, 30),
    }
)


def rule_of(case: dict[str, Any]) -> Plateau:
    return Plateau(
        earliest=case["minimum"] + 1,
        **{key: value for key, value in case.items() if key != "minimum"},
    )


@given(cases, st.lists(rewards, max_size=40))
def test_it_stops_where_the_definition_says(case: dict[str, Any], signals: list[Fraction]) -> None:
    exact = {**case, "min_gain": Fraction(repr(case["min_gain"]))}
    expected = defined_stop(signals, **exact)
    assert stop_of(rule_of(case), [float(signal) for signal in signals]) == expected


@given(cases, st.lists(rewards, min_size=40, max_size=40))
def test_a_planned_length_is_kept_whatever_the_signals(
    case: dict[str, Any], signals: list[Fraction]
) -> None:
    planned = rule_of(case).planned()
    if planned is not None:
        assert stop_of(rule_of(case), [float(signal) for signal in signals]) == planned


@given(cases)
def test_a_length_is_open_only_if_signals_decide(case: dict[str, Any]) -> None:
    flat = stop_of(rule_of(case), [0.5] * 60)
    rise = stop_of(rule_of(case), [100.0 * step for step in range(60)])
    assert (rule_of(case).planned() is None) == (flat != rise)


def test_what_a_rule_saw_is_not_what_it_is() -> None:
    used, fresh = Plateau(**WEIGHTS), Plateau(**WEIGHTS)
    used.observe(0.5)
    assert used == fresh and repr(used) == repr(fresh)

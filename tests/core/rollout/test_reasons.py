"""Why rollouts ended, counted."""

from __future__ import annotations

import numpy as np

from whale_core.keys import DrawKey
from whale_core.records import Call, Outcome, Trajectory
from whale_core.rollout.reasons import count_reasons, crashes, without_messages


def ended(reason: str | None) -> Trajectory:
    key = DrawKey(0, "score", 1, 1, "e", 0)
    ids = np.zeros(1, np.int32)
    call = Call(ids, ids, np.zeros(1, np.float32), "", "end", "w")
    return Trajectory("e", "h", "w", key, (call,), (), None, {}, Outcome.FAIL, reason)


def test_one_fault_is_one_reason() -> None:
    reasons = [
        "error: KeyError: 'a1'",
        "error: KeyError: 'b'",
        "error: IndexError: index 12 of 3",
        "error: IndexError: index 7 of 5",
        'error: KeyError: "it\'s"',
        "tokens",
        None,
    ]
    counted = count_reasons(map(ended, reasons))
    assert list(counted.items()) == [
        ("error: KeyError: '…'", 3),
        ("error: IndexError: index N of N", 2),
        ("tokens", 1),
    ]
    assert crashes(counted) == 5


def test_the_rare_are_counted_together_and_crashes_stay_crashes() -> None:
    names = ("Ah", "Bee", "Cee", "Dee", "Eff", "Gee")
    rare = [f"error: {name}: {name}" for name in names]
    counted = count_reasons(map(ended, [*rare, *rare[:4], "tokens", "provenance"]))
    assert counted == {**dict.fromkeys(rare[:4], 2), "error: others": 2, "others": 2}
    assert crashes(counted) == 10
    assert (
        count_reasons(map(ended, reversed([*rare, *rare[:4], "tokens", "provenance"]))) == counted
    )


def test_a_reason_is_bounded() -> None:
    (reason,) = count_reasons([ended("error: " + "x" * 500)])
    assert len(reason) == 100


def test_of_an_exception_its_type_stays_unless_a_harness_may_have_named_it() -> None:
    counted = {
        "error: KeyError: '…'": 3,
        "error: KeyError: which moon": 2,
        "error: which_moon: x": 1,
        "error: others": 1,
        "error: open: x": 1,
        "cpu": 4,
        "provenance": 1,
    }
    assert without_messages(counted) == {
        "error: KeyError": 5,
        "error: others": 3,
        "cpu": 4,
        "provenance": 1,
    }

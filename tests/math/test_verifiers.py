from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from answers_table import ROWS
from math_kit import trajectory

import whale_math.verify.pool as pool_module
from whale_core.plugins import Setup
from whale_core.records import Example, NotScored, Trajectory, Verdict
from whale_math.answers import boxed, committed, stated
from whale_math.config import MathVerifyConfig, StrictBoxConfig
from whale_math.verify.equal import MathVerifyVerifier
from whale_math.verify.integers import whole_number
from whale_math.verify.pool import Pool, Worker
from whale_math.verify.size import too_large
from whale_math.verify.strict import StrictBoxVerifier

SETUP = Setup(seed=0)
STRICT = StrictBoxVerifier(StrictBoxConfig(), SETUP)
TOWER = "9^{9^{9^{9^{9}}}}+x"
SLOW = "(7^{3}+x)^{9}7^{10^{7}}"  # nothing in it is too large to try


def example(reference: str) -> Example:
    return Example("x", {"problem": "?", "answer": reference}, "g")


@pytest.fixture(scope="module")
def equal() -> Iterator[MathVerifyVerifier]:
    """A verifier whose workers are started for one event loop, that of ``loop``."""
    verifier = MathVerifyVerifier(MathVerifyConfig(workers=1, seconds=60.0), SETUP)
    yield verifier
    asyncio.run(verifier.close())


def judge_all(
    verifier: MathVerifyVerifier | StrictBoxVerifier, cases: list[tuple[str, Trajectory]]
) -> list[Verdict]:
    async def work() -> list[Verdict]:
        try:
            found = [await verifier.verify(example(ref), played) for ref, played in cases]
        finally:
            if isinstance(verifier, MathVerifyVerifier):
                await verifier.close()
        assert all(isinstance(verdict, Verdict) for verdict in found)
        return found  # type: ignore[return-value]

    return asyncio.run(work())


# --- the frozen table -----------------------------------------------------------------------------


def test_the_table_is_large_and_has_no_row_twice():
    assert len(ROWS) >= 80 and len({row[:2] for row in ROWS}) == len(ROWS)


def test_strict_box_gives_the_tables_verdicts():
    found = judge_all(STRICT, [(row[0], trajectory(row[1])) for row in ROWS])
    wrong = [row for row, verdict in zip(ROWS, found, strict=True) if verdict.reward != row[3]]
    assert wrong == []


def test_math_verify_gives_the_tables_verdicts(equal: MathVerifyVerifier):
    found = judge_all(equal, [(row[0], trajectory(row[1])) for row in ROWS])
    wrong = [row for row, verdict in zip(ROWS, found, strict=True) if verdict.reward != row[2]]
    assert wrong == []
    assert not any(verdict.parts["undecided"] for verdict in found)


def strict_by_description(reference: str, reply: str) -> bool:
    """The published rule as method descriptions tell it, written anew: of the text's last 100
    characters, the last box, its braces counted; equal as a string."""
    tail = reply[-300:][-100:]
    at = tail.rfind("\\boxed{")
    if at < 0:
        return False
    depth = 0
    for index in range(at + 6, len(tail)):
        depth += {"{": 1, "}": -1}.get(tail[index], 0)
        if depth == 0:
            return tail[at + 7 : index] == reference
    return False


def test_an_independent_strict_rule_agrees_but_for_thinking_and_escaped_braces():
    """It sees no thinking, and takes an escaped brace for a brace."""
    differ = [
        (reference, reply)
        for reference, reply, _, strict in ROWS
        if strict_by_description(reference, reply) != strict
    ]
    assert differ == [
        ("42", "<think>It is \\boxed{42}."),
        ("42", "<think>It is \\boxed{42}.</think>"),
        ("42", "\\boxed{42} <think>or"),
        ("\\{", "\\boxed{\\{}"),
    ]


# --- which text may be judged ---------------------------------------------------------------------


@pytest.mark.parametrize("verifier", [STRICT, MathVerifyVerifier(MathVerifyConfig(), SETUP)])
def test_only_the_last_reply_counts(verifier: MathVerifyVerifier | StrictBoxVerifier):
    right = r"\boxed{42}"
    cases = [
        trajectory("no", right),
        trajectory(right, "no", answer=right),
        trajectory(right, right, answer=right),
        trajectory(f"so: {right}!", answer=right),
        trajectory(f"<think>{right}</think> none", answer=right),
        trajectory(f"<think>{right}", answer=right),
        trajectory("nothing", answer=right),
        trajectory(answer=right),
        trajectory(f"{right}, no: \\boxed{{41}}", answer=right),  # the harness may not choose
        trajectory(f"\\boxed{{41}}, no: {right}", answer=right),
    ]
    found = judge_all(verifier, [("42", case) for case in cases])
    assert [verdict.reward for verdict in found] == [1, 0, 1, 1, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("reply", "answer", "reward"),
    [
        ("It is 42.", "42", 1),
        ("142", "42", 0),
        ("420 or so", "42", 0),
        ("3.42", "42", 0),
        ("42.5", "42", 0),
        ("1,042", "42", 0),
        ("42,000", "42", 0),
        ("1042 and 42", "42", 1),
        (r"\boxed{142}", "42", 0),
        (r"\boxed{42}", "42", 1),  # the same as the reply's own
        ("<answer>41</answer> not 42", "42", 0),
    ],
)
def test_a_harness_cuts_no_answer_out_of_another(
    equal: MathVerifyVerifier, reply: str, answer: str, reward: int
):
    (found,) = judge_all(equal, [("42", trajectory(reply, answer=answer))])
    assert found.reward == reward


@pytest.mark.parametrize(
    ("reference", "answer", "right"),
    [
        ("5", "x = 5", True),
        ("5", r"\theta_{1}=5", True),
        ("42", r"6 \cdot 7 = 42", True),
        ("42", "x = 6*7 = 42", True),
        ("5", "1=2=5", False),
        ("5", "x=4=5", False),
        ("42", "41 = 42", False),
        ("3", r"3\approx 4", False),
        ("5", r"\ne 5", False),
        ("5", "a+b=5", False),
        ("x<5", "x<5", True),
    ],
)
def test_an_answer_names_one_value(
    equal: MathVerifyVerifier, reference: str, answer: str, right: bool
):
    (found,) = judge_all(equal, [(reference, trajectory(f"\\boxed{{{answer}}}"))])
    assert found.reward == right


def test_parts_say_what_there_was_to_judge(equal: MathVerifyVerifier):
    no, yes = judge_all(equal, [("42", trajectory("none")), ("42", trajectory(r"\boxed{41}"))])
    assert (no.parts, yes.parts) == (
        {"stated": 0.0, "unfinished": 0.0, "undecided": 0.0},
        {"stated": 1.0, "unfinished": 0.0, "undecided": 0.0},
    )
    (task,) = judge_all(equal, [("142", trajectory(r"\boxed{31 + 111}"))])
    assert task.parts == {"stated": 1.0, "unfinished": 1.0, "undecided": 0.0}
    no, yes = judge_all(STRICT, [("42", trajectory("none")), ("42", trajectory(r"\boxed{41}"))])
    assert (no.parts, yes.parts) == ({"boxed": 0.0}, {"boxed": 1.0})


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("42", 42),
        ("-0", 0),
        ("1,234,567", 1234567),
        ("$1,234$", 1234),
        ("\\(7\\)", 7),
        ("12,34", None),
        ("1 2", None),
        ("1 234", 1234),
        ("12 345 678", 12345678),
        ("1 234 56", None),
        ("4.2", None),
        ("42%", None),
        ("٤٢", None),
        ("", None),
        ("9" * 41, None),
        ("1_000", None),
    ],
)
def test_whole_numbers(text: str, number: int | None):
    assert whole_number(text) == number


def test_what_stands_where():
    assert boxed(r"\boxed{a{b}c}") == "a{b}c" and boxed("none") is None
    assert committed("a</think>b") == "b" and committed("<think>a") == ""
    assert stated("x + 1") == "x + 1" and stated("it is x") is None and stated("1 2") is None
    assert stated(r"\frac{\pi}{2}") is not None and stated("a\nb") is None
    assert stated("1 1/2") == "1 1/2" and stated("1 2/1") is None and stated("1 1/2 3") is None


# --- the workers ----------------------------------------------------------------------------------


def test_whole_numbers_need_no_worker(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pool_module, "COMMAND", ("/nowhere",))
    verifier = MathVerifyVerifier(MathVerifyConfig(), SETUP)
    (found,) = judge_all(verifier, [("42", trajectory(r"\boxed{42}"))])
    assert found.reward == 1.0


@pytest.mark.parametrize("command", [("/nowhere",), ("/bin/false",), ("/bin/echo", "no")])
def test_workers_that_do_not_start_score_nothing(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pool_module, "COMMAND", command)
    verifier = MathVerifyVerifier(MathVerifyConfig(), SETUP)
    found = asyncio.run(verifier.verify(example("1/2"), trajectory(r"\boxed{\frac12}")))
    assert isinstance(found, NotScored) and found.reason.startswith("verifier: ")


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_what_takes_too_long_is_undecided_and_its_worker_replaced():
    before = children()

    async def work() -> tuple[Verdict | NotScored, Verdict | NotScored]:
        verifier = MathVerifyVerifier(MathVerifyConfig(workers=1, seconds=2.0), SETUP)
        await verifier.verify(example("1/2"), trajectory(r"\boxed{0.5}"))  # starts the worker
        began = time.monotonic()
        late = await verifier.verify(example(r"\sqrt{4}"), trajectory(f"\\boxed{{{SLOW}}}"))
        assert time.monotonic() - began < 20
        right = await verifier.verify(example("1/2"), trajectory(r"\boxed{0.5}"))
        assert len(children() - before) == 1
        await verifier.close()
        await verifier.close()
        return late, right

    late, right = asyncio.run(work())
    assert isinstance(late, Verdict) and isinstance(right, Verdict)
    assert (late.reward, right.reward) == (0.0, 1.0)
    assert (late.parts["undecided"], right.parts["undecided"]) == (1.0, 0.0)
    assert children() == before


SLEEPER = """
import sys, time
print("ready", flush=True)
for line in sys.stdin:
    time.sleep(float(sys.argv[1]))
    print("true", flush=True)
"""


@pytest.mark.parametrize(("far", "right"), [(30, True), (1, False)])
def test_time_without_a_processor_is_no_ones_fault(
    far: int, right: bool, monkeypatch: pytest.MonkeyPatch
):
    """A stopped or crowded out worker takes long by the clock: that never makes an answer wrong."""
    monkeypatch.setattr(pool_module, "COMMAND", (sys.executable, "-c", SLEEPER, "1.0"))
    monkeypatch.setattr(pool_module, "FAR", far)
    verifier = MathVerifyVerifier(MathVerifyConfig(workers=1, seconds=0.2), SETUP)
    found = asyncio.run(verifier.verify(example("1/2"), trajectory(r"\boxed{0.5}")))
    if right:
        assert isinstance(found, Verdict) and found.reward == 1.0
    else:
        assert isinstance(found, NotScored) and "got no 0.2 s of a processor" in found.reason


@pytest.mark.parametrize(
    "answer",
    [
        TOWER,
        "9^{9^9}",
        "10^{10^{10}}",
        "2^{-1000000000}",
        "(2)^{2^{2^{2^{9}}}}",
        "12345678!",
        "(" * 20 + "1" + ")" * 20,
        "1+" * 1500 + "1",
    ],
)
def test_what_is_too_large_is_not_tried(answer: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pool_module, "COMMAND", ("/nowhere",))  # no worker is needed
    (found,) = judge_all(
        MathVerifyVerifier(MathVerifyConfig(), SETUP), [("x", trajectory(f"\\boxed{{{answer}}}"))]
    )
    assert (found.reward, found.parts["undecided"]) == (0.0, 1.0)


@pytest.mark.parametrize(
    "text",
    [
        "2^{10}",
        "2^{2^{25}}",
        "7^{10^6}",
        "1^{10^{10}}",
        "0^{10^{99}}",
        "1.5^{1000000000}",
        "10!",
        "x^{2^{2024}}",
        "2^{x^{9}}",
        "{" * 16 + "1" + "}" * 16,
    ],
)
def test_what_the_library_can_decide_on_is_tried(text: str):
    assert not too_large(text)


STUB = """
import json, sys
print("ready", flush=True)
for line in sys.stdin:
    if "die" in line:
        sys.exit(1)
    print("true", flush=True)
"""


def test_a_worker_knows_no_keys(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")

    async def work() -> str:
        worker = await Worker.start()
        try:
            return Path(f"/proc/{worker._process.pid}/environ").read_text()
        finally:
            worker.close()

    assert "secret" not in asyncio.run(work())


def test_an_answer_at_which_two_workers_end_is_undecided(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pool_module, "COMMAND", (sys.executable, "-c", STUB))

    async def work() -> list[bool | None]:
        pool = Pool(2, 10.0)
        answers = ("a", "die", "b", "c" * 3000)
        found = [await pool.equal("x", answer) for answer in answers]
        together = await asyncio.gather(*(pool.equal("x", str(n)) for n in range(20)))
        assert set(together) == {True} and len(pool._all) <= 2
        pool.close()
        return found

    assert asyncio.run(work()) == [True, None, True, None]


def test_workers_are_started_again_in_another_event_loop(equal: MathVerifyVerifier):
    case = [(r"\frac{1}{2}", trajectory(r"\boxed{0.5}"))]
    assert judge_all(equal, case) == judge_all(equal, case)

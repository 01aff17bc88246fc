from __future__ import annotations

import asyncio
from typing import Any

import pytest
from attrs import evolve
from math_kit import SUM, Echo, trajectory

from whale_core.config.resolve import resolve
from whale_core.jail import JailError
from whale_core.plugins.manager import load_plugins
from whale_core.records import Call, Outcome, ToolEvent, Verdict
from whale_core.testing.workbench import as_harness, play
from whale_math.config import MathVerifyConfig
from whale_math.domain import MathDomain
from whale_math.environment import MOST_CODE, PYTHON, MathEnvironment
from whale_math.metrics import METRICS
from whale_math.nulls import NULL_MODELS
from whale_math.python.result import Result
from whale_math.verify.equal import MathVerifyVerifier


def call(environment: MathEnvironment, **arguments: Any) -> Any:
    return asyncio.run(environment.call("python", arguments))


def test_the_view_is_the_problem_alone():
    assert MathEnvironment(SUM, Echo()).view() == {"problem": "What is 20 + 22?"}


def test_code_must_be_what_the_model_wrote():
    assert PYTHON.sampled == ("code",)


def test_a_program_is_run_and_how_it_ended_is_kept():
    tool = Echo()
    environment = MathEnvironment(SUM, tool)
    told = call(environment, code="20 + 22", show_last=True)
    assert told == {"stdout": "42\n", "stderr": "", "exit_status": 0, "status": "finished"}
    tool.result = Result("", "", None, "timeout")
    call(environment, code="while True: pass")
    assert tool.ran == [("20 + 22", True), ("while True: pass", False)]
    assert environment.record() == {"python": ["finished", "timeout"]}


@pytest.mark.parametrize(
    ("quoted", "code"),
    [
        (r"print(\"a\")\nx", 'print("a")\nx'),
        ("a\nb", "a\nb"),
        (r"\u00fc", "ü"),
        (r"\ud800", "?"),
    ],
)
def test_a_quoted_program_is_read_as_json_is(quoted: str, code: str):
    tool = Echo()
    call(MathEnvironment(SUM, tool), code=quoted, quoted=True)
    assert tool.ran == [(code, False)]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"code": 1},
        {"code": "1", "timeout": 3},
        {"code": "1", "show_last": 1},
        {"code": "1", "quoted": "yes"},
        {"code": "x" * (MOST_CODE + 1)},
        {"code": '"', "quoted": True},
        {"code": '", "', "quoted": True},
        {"code": "\\x41", "quoted": True},
    ],
)
def test_other_arguments_are_refused(arguments: dict[str, Any]):
    tool = Echo()
    with pytest.raises(ValueError):
        call(MathEnvironment(SUM, tool), **arguments)
    with pytest.raises(ValueError):
        asyncio.run(MathEnvironment(SUM, tool).call("search", {"code": "1"}))
    assert tool.ran == []


# --- metrics --------------------------------------------------------------------------------------


def event(exit_status: int | None, after_call: int = 1) -> ToolEvent:
    return ToolEvent("python", {"code": "1"}, {"exit_status": exit_status}, after_call)


def metrics(*replies: str, right: bool = False, **changes: Any) -> dict[str, float]:
    played = trajectory(*replies)
    played = evolve(played, verdict=Verdict(float(right)), **changes)
    return {metric.name: metric.of(played) for metric in METRICS}


def test_metrics_of_an_episode_that_went_well():
    assert metrics("<code>1</code>", r"\boxed{1}", right=True, events=(event(0),)) == {
        "format": 1.0,
        "answered": 1.0,
        "truncated": 0.0,
        "tool_calls": 1.0,
        "tool_errors": 0.0,
        "tool_worked": 1.0,
        "right_after_tool": 1.0,
        "calls": 2.0,
    }


def test_metrics_of_what_can_go_wrong():
    failed = metrics("a", "b", right=True, events=(event(1), event(None)))
    assert (failed["tool_calls"], failed["tool_errors"], failed["tool_worked"]) == (2, 2, 0)
    assert failed["right_after_tool"] == failed["format"] == 0
    refused = ToolEvent("python", {}, None, 1, "code must be a text")
    assert metrics("a", events=(refused,))["tool_calls"] == 0
    assert metrics("a", right=False, events=(event(0),))["right_after_tool"] == 0
    assert metrics(r"\boxed{1}", "none")["format"] == 0
    assert metrics("<think>\\boxed{1}")["format"] == 0
    assert metrics("a", answer=None, reason="calls")["answered"] == 0
    cut: Call = evolve(trajectory("a").calls[0], finish_reason="length")
    assert metrics("a", calls=(cut,))["truncated"] == 1
    nothing = evolve(trajectory(), outcome=Outcome.FAIL)
    assert {metric.of(nothing) for metric in METRICS} == {0.0}


# --- a whole episode ------------------------------------------------------------------------------


def rolled_out(domain: MathDomain, name: str, reply: Any) -> Any:
    """Play real episodes in which ``reply`` answers; return their trajectories."""
    null = evolve(NULL_MODELS[0], reply=reply)
    verifier = MathVerifyVerifier(MathVerifyConfig(), None)  # type: ignore[arg-type]

    async def work() -> Any:
        try:
            harness = as_harness(domain.harnesses[name])
            return await play(domain, verifier, harness, null, domain.split("harness")[:4])
        finally:
            await domain.close()
            await verifier.close()

    return asyncio.run(work())


def test_an_episode_with_the_real_tool(domain: MathDomain):
    def reply(view: Any, messages: Any, rng: Any) -> str:
        said = messages[-1].content
        if said.startswith("Output: "):
            return "\\boxed{" + said.removeprefix("Output: ") + "}"
        return "<code>6*7</code>"

    for played in rolled_out(domain, "short", reply):
        assert played.reason is None and played.answer == r"\boxed{42}"
        assert played.record == {"python": ["finished"]}
        assert played.events[0].result["stdout"] == "42\n"
        assert played.metrics["tool_worked"] == 1.0


def test_hostile_programs_fail_their_own_episode_only(domain: MathDomain):
    def reply(view: Any, messages: Any, rng: Any) -> str:
        if messages[-1].content.startswith("Output: "):
            return r"\boxed{42}"
        return "<code>import os; os._exit(1)</code>" if rng.integers(2) else "<code>1</code>"

    played = rolled_out(domain, "strong", reply)
    assert {each.outcome for each in played} <= {Outcome.PASS, Outcome.FAIL}
    assert {each.record["python"][0] for each in played} == {"died", "finished"}


def test_a_tool_that_fails_is_not_the_models_fault(
    domain: MathDomain, monkeypatch: pytest.MonkeyPatch
):
    async def broken(code: str, show_last: bool) -> Result:
        raise JailError("the tool python: its jail ended")

    monkeypatch.setattr(domain.python, "run", broken)
    played = rolled_out(domain, "short", lambda view, messages, rng: "<code>1</code>")
    assert {each.outcome for each in played} == {Outcome.NOT_SCORED}
    assert "its jail ended" in played[0].reason


def test_the_set_default_starts_from_the_harness_for_small_models():
    resolved = resolve(load_plugins(), "default", (), {"domain": "math"})
    assert resolved.core.harness == "short"
    assert resolved.chosen["verifier"].name == "math-verify"

"""Pass, fail, not scored: what an engine, a verifier or a tool does wrong is made again once.

The rerun has the same draws; after a second fault the rollout is not scored. It is never a zero,
and never touches the rollouts beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from whale_core.config.settings import CapSettings
from whale_core.errors import EngineError, PluginError, TooMuchNotScored
from whale_core.jail import probe
from whale_core.keys import DrawKey, content_hash
from whale_core.plugins import Setup
from whale_core.plugins.manager import Plugins
from whale_core.records import (
    Generation,
    GenerationRequest,
    NotScored,
    Outcome,
    Sampling,
    Trajectory,
    Verdict,
)
from whale_core.roles import Harness, Metric
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.faults import problem_of
from whale_core.rollout.policy import EnginePolicy
from whale_core.run.caps import Caps
from whale_core.run.folder import RunFolder
from whale_core.run.ledger import Ledger
from whale_core.run.rollouts import Rollouts, score_of
from whale_core.testing.engine import (
    EngineFault,
    FaultyEngine,
    ScriptedEngine,
    answers,
    dies,
    hangs,
    spoils,
)
from whale_core.testing.toy import DomainConfig, ToyDomain, ToyVerifier, VerifierConfig

SETUP = Setup(0)
DOMAIN = ToyDomain(DomainConfig(), SETUP)
VERIFIER = ToyVerifier(VerifierConfig(), SETUP)
KIND = probe("auto")
COUNT = 6
DEADLINE = 0.5
TWO_CALLS = """
from whale_harness import BaseHarness

class Harness(BaseHarness):
    async def run(self, task, model, env):
        messages = [{"role": "user", "content": "Letters: " + task["letters"]}]
        first = await model.chat(messages, max_tokens=4)
        messages += [first.message(), {"role": "user", "content": "Letters: " + task["letters"]}]
        second = await model.chat(messages, max_tokens=8)
        await env.call("say", letter=second.text[:1])
        return second.text
"""
HARNESS = Harness(content_hash(TWO_CALLS), TWO_CALLS)


def letters(prompt: str, rng: np.random.Generator) -> str:
    """Some listed letters in random order, so that both outcomes and both lengths occur."""
    listed = list(prompt.split("Letters: ")[-1][:6])
    return "".join(rng.permutation(listed))[: int(rng.integers(1, 7))]


def jobs(count: int = COUNT) -> list[Job]:
    return [
        Job(example, HARNESS, DrawKey(0, "score", 1, 1, example.id, 0))
        for example in DOMAIN.split("weight")[:count]
    ]


def run(engine: Any, domain: Any = DOMAIN, verifier: Any = VERIFIER) -> list[Trajectory]:
    executor = RolloutExecutor(domain, verifier, KIND)
    policy = EnginePolicy(engine, Sampling(), DEADLINE)
    return asyncio.run(executor.run(jobs(), policy))


def plain(trajectories: list[Trajectory]) -> list[Any]:
    """Everything of the trajectories but the time they took, arrays as bytes."""
    return [
        (
            evolve(t, seconds=0.0, calls=()),
            [
                (c, c.prompt_ids.tobytes(), c.token_ids.tobytes(), c.logprobs.tobytes())
                for c in t.calls
            ],
        )
        for t in trajectories
    ]


@pytest.fixture(scope="module")
def calm() -> list[Any]:
    """The same rollouts without a fault."""
    made = run(ScriptedEngine(letters))
    assert {t.outcome for t in made} == {Outcome.PASS, Outcome.FAIL}
    return plain(made)


ROUND_FAULTS = {
    "dies": (dies(EngineError("out of cheese")), "engine: out of cheese"),
    "torch": (dies(RuntimeError("no\n memory")), "engine: RuntimeError: no memory"),
    "connection": (dies(ConnectionResetError("reset")), "engine: ConnectionResetError: reset"),
    "memory": (dies(MemoryError()), "engine: MemoryError:"),
    "own timeout": (dies(TimeoutError("read")), "engine: TimeoutError: read"),
    "hangs": (hangs(), f"engine: no reply within {DEADLINE} s (rollout.reply_seconds)"),
    "too few": (answers(lambda made: made[:-1]), "engine: 5 generations for 6 requests"),
    "too many": (answers(lambda made: [*made, made[0]]), "engine: 7 generations for 6 requests"),
    "nothing": (answers(lambda made: None), "engine: TypeError: 'NoneType' object is not iterable"),
}
INDEX = 2


def at_index(change: Callable[[Generation], Any]) -> EngineFault:
    return answers(lambda made: [change(g) if i == INDEX else g for i, g in enumerate(made)])


ONE_FAULTS = {
    "NaN": (at_index(lambda g: evolve(g, logprobs=g.logprobs * np.nan)), "not finite"),
    "one inf": (
        at_index(lambda g: evolve(g, logprobs=np.append(g.logprobs[1:], np.float32(-np.inf)))),
        "not finite",
    ),
    "positive": (at_index(lambda g: evolve(g, logprobs=g.logprobs * -1)), "a log-probability of 1"),
    "empty": (
        spoils(INDEX, token_ids=np.empty(0, np.int32), logprobs=np.empty(0, np.float32), text=""),
        "no tokens",
    ),
    "cut off": (
        at_index(
            lambda g: evolve(
                g, token_ids=g.token_ids[:1], logprobs=g.logprobs[:1], finish_reason="length"
            )
        ),
        "too few tokens: cut off after 1 of 4",
    ),
    "cached NaN": (spoils(INDEX, cached_tokens=float("nan")), "nan cached of"),
    "cached text": (spoils(INDEX, cached_tokens="x"), "x cached of"),
    "cached less than nothing": (spoils(INDEX, cached_tokens=-1), "-1 cached of"),
    "cached too many": (spoils(INDEX, cached_tokens=10**9), "1000000000 cached of"),
    "too long": (
        spoils(
            INDEX,
            token_ids=np.full(5, 99, np.int32),
            logprobs=np.full(5, -1, np.float32),
            finish_reason="length",
        ),
        "5 tokens where at most 4",
    ),
    "short logprobs": (
        at_index(lambda g: evolve(g, logprobs=g.logprobs[:-1])),
        "log-probabilities for",
    ),
    "negative id": (at_index(lambda g: evolve(g, token_ids=g.token_ids * -1)), "vocabulary"),
    "large id": (at_index(lambda g: evolve(g, token_ids=g.token_ids + (1 << 30))), "vocabulary"),
    "float ids": (at_index(lambda g: evolve(g, token_ids=g.token_ids * 1.0)), "not arrays"),
    "list": (at_index(lambda g: evolve(g, token_ids=g.token_ids.tolist())), "not arrays"),
    "reason": (spoils(INDEX, finish_reason="abort"), "unknown finish reason 'abort'"),
    "no text": (spoils(INDEX, text=None), "not valid Unicode"),
    "half a pair": (spoils(INDEX, text="\ud800"), "not valid Unicode"),
    "None": (at_index(lambda g: None), "a NoneType in place of a generation"),
}


@pytest.mark.parametrize("call", [0, 1])
@pytest.mark.parametrize("name", ROUND_FAULTS)
def test_a_fault_of_the_engine_is_made_up_for_bit_by_bit(
    name: str, call: int, calm: list[Any]
) -> None:
    engine = FaultyEngine(letters, {call: ROUND_FAULTS[name][0]})
    assert plain(run(engine)) == calm
    assert [len(batch) for batch in engine.batches] == [COUNT] * (call + 3)
    streams = [[request.stream for request in batch] for batch in engine.batches]
    assert streams[call + 1 :] == [streams[0], streams[-1]]  # the same draws again


@pytest.mark.parametrize("name", ROUND_FAULTS)
def test_a_second_fault_of_the_engine_is_not_scored(name: str) -> None:
    fault, reason = ROUND_FAULTS[name]
    engine = FaultyEngine(letters, {0: fault, 2: fault})  # call 1 is the rerun's first
    made = run(engine)
    assert {t.outcome for t in made} == {Outcome.NOT_SCORED}
    assert {t.reason for t in made} == {reason}
    assert all(t.verdict is None and not t.metrics for t in made)
    assert all(len(t.calls) == 1 for t in made)  # of the rerun: the first try went no further
    score = score_of(HARNESS.id, "w", made)
    assert (score.scored, score.not_scored, dict(score.rewards)) == (0, COUNT, {})


@pytest.mark.parametrize("name", ONE_FAULTS)
def test_a_bad_sample_is_its_own_rollouts_fault_alone(name: str, calm: list[Any]) -> None:
    fault, reason = ONE_FAULTS[name]
    once = FaultyEngine(letters, {0: fault})
    assert plain(run(once)) == calm
    assert [len(batch) for batch in once.batches] == [COUNT, COUNT - 1, 1, 1]
    assert once.batches[2][0].stream == once.batches[0][INDEX].stream

    async def alone(made: list[Generation]) -> Any:  # in the rerun it is the only one
        return (await fault(made * (INDEX + 1)))[INDEX:]

    twice = FaultyEngine(letters, {0: fault, 2: alone})
    made = run(twice)
    lost = made.pop(INDEX)
    assert lost.outcome is Outcome.NOT_SCORED
    assert lost.reason is not None
    assert lost.reason.startswith("engine: ") and reason in lost.reason
    assert lost.calls == () and lost.verdict is None
    assert plain(made) == calm[:INDEX] + calm[INDEX + 1 :]
    score = score_of(HARNESS.id, "w", [*made, lost])
    assert (score.scored, score.not_scored) == (COUNT - 1, 1)
    assert score.mean == pytest.approx(np.mean([t.reward for t in made]))
    assert lost.example_id not in score.rewards


def test_a_fault_late_in_an_episode_keeps_what_it_had(calm: list[Any]) -> None:
    nan = spoils(0, logprobs=np.full(3, np.nan, np.float32), token_ids=np.full(3, 99, np.int32))
    made = run(FaultyEngine(letters, {1: nan, 3: nan}))
    assert made[0].outcome is Outcome.NOT_SCORED
    assert len(made[0].calls) == 1
    assert plain(made[1:]) == calm[1:]


def test_other_weights_stop_the_run() -> None:
    for plan in ({0: spoils(3, weights_id="other")}, {1: spoils(0, weights_id="other")}):
        with pytest.raises(EngineError, match="served weights other where") as caught:
            run(FaultyEngine(letters, plan))
        assert caught.value.exit_code == 6


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, asyncio.CancelledError, SystemExit])
def test_an_interruption_is_no_fault(interruption: type[BaseException]) -> None:
    engine = FaultyEngine(letters, {0: dies(interruption())})
    with pytest.raises(interruption):
        run(engine)
    assert len(engine.batches) == 1


class Silent(ScriptedEngine):
    """Does not say what it serves."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__(letters)
        self.error = error

    async def weights_id(self) -> str:
        """Raise, or hang."""
        if self.error is not None:
            raise self.error
        return await asyncio.Event().wait() or ""


@pytest.mark.parametrize(
    ("error", "reason"),
    [(None, "no reply within"), (ConnectionError("refused"), "ConnectionError: refused")],
)
def test_an_engine_that_does_not_say_what_it_serves_stops_the_run(
    error: Exception | None, reason: str
) -> None:
    with pytest.raises(EngineError, match=f"engine: {reason}"):
        run(Silent(error))


def test_a_deadline_leaves_a_slow_engine_alone(calm: list[Any]) -> None:
    async def slow(made: list[Generation]) -> list[Generation]:
        await asyncio.sleep(DEADLINE / 4)
        return made

    engine = FaultyEngine(letters, dict.fromkeys(range(4), slow))
    assert plain(run(engine)) == calm
    assert len(engine.batches) == 2


# --- verifiers, metrics and tools -----------------------------------------------------------------


class FaultyVerifier(ToyVerifier):
    """Answers ``instead`` for one example, the first ``times`` times it is asked about it."""

    def __init__(self, instead: Any, times: int) -> None:
        self.instead, self.times, self.asked = instead, times, 0
        self.example = DOMAIN.split("weight")[INDEX].id

    async def verify(self, example: Any, trajectory: Trajectory) -> Any:
        """Return the toy verdict unless there is a fault to make."""
        if example.id == self.example:
            self.asked += 1
            if self.asked <= self.times:
                if isinstance(self.instead, Exception):
                    raise self.instead
                return self.instead
        return await super().verify(example, trajectory)


@pytest.mark.parametrize(
    ("instead", "reason"),
    [
        (ValueError("bad\nreply"), "verifier: ValueError: bad reply"),
        (EngineError("the judge is gone"), "verifier: the judge is gone"),
        (KeyError("score"), "verifier: KeyError: 'score'"),
        (NotScored("judge: 503"), "judge: 503"),
        (Verdict(float("nan")), "no reward in [0, 1]"),
        (Verdict(1.5), "no reward in [0, 1]"),
        (None, "verifier: None has no reward"),
    ],
)
def test_a_verifier_that_fails_is_asked_again_and_then_has_not_scored(
    instead: Any, reason: str, calm: list[Any]
) -> None:
    once = FaultyVerifier(instead, 1)
    assert plain(run(ScriptedEngine(letters), verifier=once)) == calm
    assert once.asked == 2
    made = run(ScriptedEngine(letters), verifier=FaultyVerifier(instead, 2))
    lost = made.pop(INDEX)
    assert lost.outcome is Outcome.NOT_SCORED and lost.verdict is None
    assert lost.reason is not None and reason in lost.reason
    assert plain(made) == calm[:INDEX] + calm[INDEX + 1 :]


@pytest.mark.parametrize("of", [lambda t: 1 / 0, lambda t: float("nan"), lambda t: "much"])
def test_a_metric_that_fails_is_the_plugins_defect(of: Any) -> None:
    class Domain(ToyDomain):
        metrics = (Metric("odd", of),)

    with pytest.raises(PluginError, match=r"domain toy: the metric odd of example weight-\d+"):
        run(ScriptedEngine(letters), domain=Domain(DomainConfig(), SETUP))


@pytest.mark.parametrize("result", [{1, 2}, float("nan"), RuntimeError("the tool is gone")])
def test_a_tool_that_fails_is_not_scored(result: Any) -> None:
    class Domain(ToyDomain):
        def environment(self, example: Any) -> Any:
            environment = super().environment(example)

            def call(name: str, arguments: Any) -> Any:
                if isinstance(result, Exception):
                    raise result
                return result

            environment.call = call  # type: ignore[method-assign]
            return environment

    made = run(ScriptedEngine(letters), domain=Domain(DomainConfig(), SETUP))
    assert {t.outcome for t in made} == {Outcome.NOT_SCORED}
    assert all(t.reason is not None and t.reason.startswith("environment: ") for t in made)


# --- too many -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lost", "stops"), [(1, False), (2, True)])
def test_too_many_not_scored_stop_the_phase_with_a_reason(
    tmp_path: Path, lost: int, stops: bool
) -> None:
    nan = spoils(0, token_ids=np.empty(0, np.int32))
    if lost == 2:
        nan = answers(lambda made: [evolve(g, finish_reason="?") for g in made[:2]] + made[2:])
    engine = FaultyEngine(letters, {0: nan, 2: nan})
    folder = RunFolder.create(tmp_path / "run")
    folder.commit("run_started")
    rollouts = Rollouts(
        executor=RolloutExecutor(DOMAIN, VERIFIER, KIND),
        policy=EnginePolicy(engine, Sampling()),
        tokenizer=engine.tokenizer,
        folder=folder,
        ledger=Ledger(),
        observers=Plugins().hooks,
        seed=0,
        max_not_scored=0.1,
        caps=Caps(CapSettings(), folder.path),
    )
    try:
        if stops:
            with pytest.raises(
                TooMuchNotScored, match=r"2 of 12 .*engine: unknown finish"
            ) as caught:
                asyncio.run(rollouts.make(jobs(12)))
            assert caught.value.exit_code == 6
            # Charged, both tries, but not kept: whoever resumes makes the block again.
            assert rollouts.ledger.rollouts == 12
            assert [entry["event"] for entry in folder.entries] == ["run_started"]
            assert len(folder.read("ledger.jsonl")) == 1
            made = asyncio.run(rollouts.make(jobs(12)))
            assert Outcome.NOT_SCORED not in {t.outcome for t in made}
            assert folder.entries[-1]["event"] == "rollouts"
        else:
            made = asyncio.run(rollouts.make(jobs(12)))
            assert [t.outcome is Outcome.NOT_SCORED for t in made] == [True] + [False] * 11
    finally:
        folder.close()


# --- what a generation may be ---------------------------------------------------------------------


@given(data=st.data())
def test_sound_generations_pass(data: st.DataObject) -> None:
    limit = data.draw(st.integers(1, 9))
    reason = data.draw(st.sampled_from(["end", "stop", "length"]))
    length = limit if reason == "length" else data.draw(st.integers(1, limit))
    ids = data.draw(st.lists(st.integers(0, 99), min_size=length, max_size=length))
    logprobs = data.draw(st.lists(st.floats(-1024, 0, width=32), min_size=length, max_size=length))
    request = GenerationRequest(np.array([1], np.int32), limit, (), Sampling(), b"")
    made = Generation(
        token_ids=np.array(ids, data.draw(st.sampled_from([np.int32, np.int64]))),
        logprobs=np.array(logprobs, data.draw(st.sampled_from([np.float32, np.float64]))),
        text=data.draw(st.text(max_size=4)),
        finish_reason=reason,
        weights_id="w",
    )
    assert problem_of(made, request, 100) is None
    assert problem_of(made, request, 0) is None
    assert problem_of(evolve(made, token_ids=made.token_ids + 100), request, 100) is not None

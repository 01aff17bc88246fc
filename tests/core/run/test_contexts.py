"""What a run does with harnesses that are not to be trusted, through its real contexts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import cast

import pytest
from attrs import evolve
from run_kit import journal_of

from whale_core.config.settings import CapSettings, SearchSettings
from whale_core.errors import CapReached, EngineError, InputError, TooMuchNotScored
from whale_core.jail import probe
from whale_core.keys import DrawKey, content_hash
from whale_core.plugins import Setup
from whale_core.plugins.manager import Plugins
from whale_core.records import (
    Example,
    Generation,
    GenerationRequest,
    NotScored,
    Sampling,
    Spent,
    Trajectory,
    Verdict,
)
from whale_core.roles import CandidateReport, Harness, NullResult, Proposal, Proposer, Workspace
from whale_core.rollout import executor
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.policy import EnginePolicy
from whale_core.run.caps import Caps
from whale_core.run.contexts import SearchPhaseContext, WeightPhaseContext, null_results
from whale_core.run.evaluation import Pair, measure
from whale_core.run.folder import RunFolder
from whale_core.run.harness_sample import harness_sample
from whale_core.run.ledger import Ledger
from whale_core.run.parts import check_splits, chosen_examples
from whale_core.run.rollouts import Rollouts, candidate_json
from whale_core.run.sampler import PromptSampler
from whale_core.testing.engine import FaultyEngine, ScriptedEngine, dies
from whale_core.testing.toy import DomainConfig, ToyDomain, ToyVerifier, VerifierConfig

SETUP = Setup(0)
DOMAIN = ToyDomain(DomainConfig(), SETUP)
SOURCE = DOMAIN.harnesses[DOMAIN.base_harness]
BASE = Harness(content_hash(SOURCE), SOURCE, "base")
CHEAT_SOURCE = SOURCE.replace(
    'character in task["letters"])', 'character in task["letters"] and character in "aeiou")'
)
CHEAT = Harness(content_hash(CHEAT_SOURCE), CHEAT_SOURCE, "cheat")


@pytest.fixture
def rollouts(tmp_path: Path):
    engine = ScriptedEngine(lambda prompt, rng: "".join(rng.permutation(list("abcdefghij"))))
    folder = RunFolder.create(tmp_path / "run")
    folder.commit("run_started")
    yield Rollouts(
        executor=RolloutExecutor(DOMAIN, ToyVerifier(VerifierConfig(), SETUP), probe("auto")),
        policy=EnginePolicy(engine, Sampling()),
        tokenizer=engine.tokenizer,
        folder=folder,
        ledger=Ledger(),
        observers=Plugins().hooks,
        seed=0,
        max_not_scored=0.1,
        caps=Caps(CapSettings(), folder.path),
    )
    folder.close()


def search_context(rollouts: Rollouts, tmp_path: Path) -> SearchPhaseContext:
    return SearchPhaseContext(
        domain=DOMAIN,
        harness=BASE,
        weights_id="w",
        cycle=1,
        phase=2,
        seed=0,
        folder=tmp_path,
        sample=harness_sample(DOMAIN.split("harness"), SearchSettings(examples=500), 0),
        null_examples=DOMAIN.split("harness"),
        draws=1,
        jail_kind=probe("auto"),
        rollouts=rollouts,
    )


def test_a_harness_that_picks_the_answer_itself_is_refused(rollouts: Rollouts) -> None:
    """The cheat points at sampled text, so provenance holds; the null models find it out."""
    examples = DOMAIN.split("harness")
    assert CHEAT_SOURCE != SOURCE
    clean = asyncio.run(null_results(BASE, DOMAIN, examples, rollouts))
    assert not any(null.refused for null in clean)
    caught = {n.name: n for n in asyncio.run(null_results(CHEAT, DOMAIN, examples, rollouts))}
    assert caught["names-everything"].refused and caught["names-everything"].mean == 1.0
    assert not caught["first-listed"].refused  # positional: measured, never a reason to refuse
    assert rollouts.ledger.rollouts == 0  # null models are not rollouts of the policy


SHY_SOURCE = CHEAT_SOURCE.replace(
    "letter = self.parse(reply.text, task)",
    'letter = reply.text[:1] if reply.finish_reason == "end" else self.parse(reply.text, task)',
)


def test_a_cheat_cannot_tell_a_null_model_by_its_finish_reason(rollouts: Rollouts) -> None:
    shy = Harness(content_hash(SHY_SOURCE), SHY_SOURCE.replace("MAX_TOKENS = 8", "MAX_TOKENS = 4"))
    assert SHY_SOURCE != CHEAT_SOURCE
    results = asyncio.run(null_results(shy, DOMAIN, DOMAIN.split("harness"), rollouts))
    assert next(n for n in results if n.name == "names-everything").refused


def test_a_harness_cannot_learn_from_its_seed_what_it_is_run_for() -> None:
    keys = [
        DrawKey(0, purpose, cycle, step, "example", 0)
        for purpose in ("train", "score", "null", "test")
        for cycle, step in ((0, 0), (1, 3))
    ]
    view = {"letters": "abc"}
    assert len({key.harness_seed(view) for key in keys}) == 1
    # Nor the example's id, by trying ids: the seed does not depend on it.
    assert DrawKey(0, "train", 0, 0, "other", 0).harness_seed(view) == keys[0].harness_seed(view)
    assert keys[0].harness_seed({"letters": "abd"}) != keys[0].harness_seed(view)
    assert len({key.stream(0) for key in keys}) == len(keys)


def test_scoring_is_one_pool_with_common_random_numbers(rollouts: Rollouts, tmp_path: Path) -> None:
    context = search_context(rollouts, tmp_path)
    together = asyncio.run(context.score([BASE, CHEAT]))
    alone = asyncio.run(context.score([BASE]))
    assert together[0] == alone[0]
    assert together[1].mean > together[0].mean


def test_candidates_that_cannot_load_or_crash_say_why(rollouts: Rollouts, tmp_path: Path) -> None:
    context = search_context(rollouts, tmp_path)
    broken = Harness("x", "class Harness:\n    pass\n")
    crashing = Harness("y", SOURCE.replace("letter = self.parse", "letter = 1 / 0 or self.parse"))
    assert asyncio.run(context.load_check(BASE)) is None
    assert asyncio.run(context.load_check(broken)) is not None
    assert asyncio.run(context.smoke(BASE)) is None
    assert "ZeroDivisionError" in str(asyncio.run(context.smoke(crashing)))


def test_selection_draws_are_the_same_in_every_phase(rollouts: Rollouts) -> None:
    pair = Pair(BASE, None, asyncio.run(rollouts.policy.weights_id()))
    examples = DOMAIN.split("selection")
    first = asyncio.run(measure(rollouts, pair, "selection", examples, 2, "select"))
    rollouts.phase, rollouts.cycle = 3, 2
    assert asyncio.run(measure(rollouts, pair, "selection", examples, 2, "select")) == first


@pytest.mark.parametrize(
    "cap", [CapSettings(rollouts=10), CapSettings(tokens=20), CapSettings(seconds=1e-6)]
)
def test_a_cap_stops_before_the_block_that_would_pass_it(
    cap: CapSettings, rollouts: Rollouts
) -> None:
    jobs = rollouts.jobs(BASE, DOMAIN.split("weight")[:6], 2, "train")
    asyncio.run(rollouts.make(jobs[:10]))
    rollouts.caps = Caps(cap, rollouts.folder.path)
    with pytest.raises(CapReached, match=r"whale resume .* cap\."):
        asyncio.run(rollouts.make(jobs[10:]))
    assert rollouts.ledger.rollouts == 10


def test_too_many_faults_stop_the_run(rollouts: Rollouts) -> None:
    plan = dict.fromkeys(range(2), dies(EngineError("scripted fault")))
    faulty = EnginePolicy(FaultyEngine(lambda prompt, rng: "a", plan), Sampling())
    jobs = rollouts.jobs(BASE, DOMAIN.split("weight")[:6], 1, "train")
    rollouts.policy = faulty
    with pytest.raises(TooMuchNotScored, match="scripted fault"):
        asyncio.run(rollouts.make(jobs))


def test_confirmation_takes_fresh_draws_of_chosen_examples(
    rollouts: Rollouts, tmp_path: Path
) -> None:
    context = search_context(rollouts, tmp_path)
    other = Harness(content_hash(SOURCE + "#"), SOURCE + "#")
    few = context.unseen[:3]
    first, same = asyncio.run(context.score([BASE, other], few, draws=2, purpose="confirm"))
    assert list(first.rewards) == [example.id for example in few]
    assert all(len(draws) == 2 for draws in first.rewards.values())
    assert same.rewards == first.rewards  # a comment more: common draw keys
    (later,) = asyncio.run(context.score([BASE], few, 2, "confirm", first_draw=2))
    (scored,) = asyncio.run(context.score([BASE], few, 2))
    texts = {
        tuple(str(call["text"]) for call in each["calls"])
        for each in rollouts.folder.read("rollouts/phase-000.jsonl")
        if each["harness"] == BASE.id
    }
    assert len(texts) > 12  # of 18: three times other random numbers
    assert later.scored == scored.scored == 6 and asyncio.run(context.score([])) == []
    assert "policy/confirm" in rollouts.ledger.totals()["by"]


def test_splits_that_share_an_example_are_refused() -> None:
    class Leaky(ToyDomain):
        def split(self, name: str) -> tuple[Example, ...]:
            examples = super().split("weight" if name == "test" else name)
            return tuple(evolve(each, id=f"{name} {each.id}") for each in examples)

    class Twice(ToyDomain):
        def split(self, name: str) -> tuple[Example, ...]:
            return tuple(evolve(each, id="one") for each in super().split(name))

    check_splits(DOMAIN)
    with pytest.raises(InputError, match="split weight has an example with the id one, which"):
        check_splits(Twice(DomainConfig(), SETUP))
    with pytest.raises(InputError, match="weight and test share"):
        check_splits(Leaky(DomainConfig(), SETUP))


def test_fewer_examples_than_asked_for_are_said() -> None:
    chosen, note = chosen_examples(DOMAIN, "selection", 500, "selection")
    assert len(chosen) == len(DOMAIN.split("selection"))
    assert "selection.examples=500" in note
    assert chosen_examples(DOMAIN, "selection", 5, "selection")[1] == ""


def test_training_scoring_and_evaluation_run_the_same_rollouts(
    rollouts: Rollouts, tmp_path: Path
) -> None:
    """One executor: each path gives, trajectory by trajectory, what the bare executor gives."""
    examples = list(DOMAIN.split("weight")[:5])

    def bare(purpose: str, cycle: int, step: int) -> list[Trajectory]:
        jobs = [
            Job(example, BASE, DrawKey(0, purpose, cycle, step, example.id, draw))
            for example in examples
            for draw in range(2)
        ]
        return plain(asyncio.run(rollouts.executor.run(jobs, rollouts.policy)))

    rollouts.cycle, rollouts.phase = 1, 2
    training = WeightPhaseContext(
        engine=ScriptedEngine(lambda prompt, rng: ""),
        harness=BASE,
        seed=0,
        next_step=7,
        sampler=PromptSampler(examples, 0),
        rollouts=rollouts,
    )
    groups = asyncio.run(training.rollout(examples, 2, 7))
    trained = [trajectory for group in groups for trajectory in group.trajectories]
    assert plain(trained) == bare("train", 1, 7)

    scoring = evolve(search_context(rollouts, tmp_path), draws=2)
    score = asyncio.run(scoring.score([BASE], examples))[0]
    by_example: dict[str, list[float]] = {}
    for trajectory in bare("score", 1, 2):
        by_example.setdefault(trajectory.example_id, []).append(trajectory.reward)
    assert {name: list(rewards) for name, rewards in score.rewards.items()} == by_example

    pair = Pair(BASE, None, asyncio.run(rollouts.policy.weights_id()))
    tested = asyncio.run(measure(rollouts, pair, "test", examples, 2, "test"))
    rewards = [trajectory.reward for trajectory in bare("test", 0, 0)]
    assert tested.interval.mean == pytest.approx(sum(rewards) / len(rewards))


def test_crashes_are_counted_for_each_step_and_each_candidate(
    rollouts: Rollouts, tmp_path: Path
) -> None:
    source = SOURCE.replace("letter = self.parse", "letter = {}[reply.text] or self.parse")
    crashing = Harness(content_hash(source), source)
    examples = list(DOMAIN.split("weight")[:3])
    training = WeightPhaseContext(
        engine=ScriptedEngine(lambda prompt, rng: ""),
        harness=crashing,
        seed=0,
        next_step=7,
        sampler=PromptSampler(examples, 0),
        rollouts=rollouts,
    )
    asyncio.run(training.rollout(examples[:2], 2, 7))
    asyncio.run(training.rollout(examples[2:], 2, 7))
    asyncio.run(training.rollout(examples[:1], 2, 8))  # ahead of its step
    assert training.reasons(7) == {"error: KeyError: '…'": 6}
    assert training.reasons(8) == {"error: KeyError: '…'": 2}
    clean, broken = asyncio.run(search_context(rollouts, tmp_path).score([BASE, crashing]))
    assert (dict(clean.reasons), sum(broken.reasons.values())) == ({}, broken.scored)
    report = CandidateReport(crashing, None, "", "", "", broken)
    assert candidate_json(report)["reasons"] == {"error: KeyError: '…'": broken.scored}


def plain(trajectories: list[Trajectory]) -> list[Trajectory]:
    """Leave out the time a rollout took."""
    return [evolve(trajectory, seconds=0.0) for trajectory in trajectories]


def test_what_the_engine_has_cached_is_dropped_before_each_block(
    rollouts: Rollouts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what a block costs would depend on whether the run was interrupted before it."""
    happened: list[str] = []

    class Engine(ScriptedEngine):
        async def forget(self) -> None:
            happened.append("forget")

        async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
            happened.append("generate")
            return await super().generate(requests)

    monkeypatch.setattr(executor, "BLOCK", 2)
    rollouts.policy = EnginePolicy(Engine(lambda prompt, rng: "a"), Sampling())
    jobs = rollouts.jobs(BASE, DOMAIN.split("weight")[:4], 1, "train")
    asyncio.run(rollouts.make(jobs))
    assert happened == ["forget", "generate"] * 2


class Bookkeeper(ToyVerifier):
    """Takes down what the run's files say whenever it is told to settle."""

    def __init__(self, folder: Path, spends: bool = True) -> None:
        super().__init__(VerifierConfig(), SETUP)
        self.folder, self.spends = folder, spends
        self.said: list[tuple[str, int]] = []

    async def verify(self, example: Example, trajectory: Trajectory) -> Verdict | NotScored:
        if not self.spends:
            return NotScored("no judge", Spent(calls=1))
        return evolve(await super().verify(example, trajectory), spent=Spent(calls=1))

    def settle(self) -> None:
        lines = journal_of(self.folder)
        last = lines[-1].get("event") or lines[-1]["note"]
        whole = (self.folder / "ledger.jsonl").read_bytes()[: lines[-1]["lengths"]["ledger.jsonl"]]
        judge = [json.loads(line) for line in whole.splitlines() if b'"judge"' in line]
        self.said.append((last, sum(line["calls"] for line in judge)))


def test_a_verifier_settles_what_is_in_the_committed_ledger(rollouts: Rollouts) -> None:
    verifier = Bookkeeper(rollouts.folder.path)
    rollouts.executor = RolloutExecutor(DOMAIN, verifier, probe("auto"))
    examples = DOMAIN.split("harness")[:4]
    asyncio.run(rollouts.make(rollouts.jobs(BASE, examples, 2, "score")))
    asyncio.run(null_results(BASE, DOMAIN, examples, rollouts))
    nulls = len(DOMAIN.null_models)
    assert verifier.said == [("rollouts", 8), ("null_check", 8 + 4 * nulls)]


def test_a_block_that_is_charged_but_not_kept_is_settled_too(rollouts: Rollouts) -> None:
    verifier = Bookkeeper(rollouts.folder.path, spends=False)
    rollouts.executor = RolloutExecutor(DOMAIN, verifier, probe("auto"))
    with pytest.raises(TooMuchNotScored):
        asyncio.run(rollouts.make(rollouts.jobs(BASE, DOMAIN.split("harness")[:4], 1, "score")))
    assert verifier.said == [("too_much_not_scored", 8)]  # each was made again once


class Charging(Bookkeeper):
    """Takes a cent for each verdict."""

    async def verify(self, example: Example, trajectory: Trajectory) -> Verdict | NotScored:
        return evolve(await super().verify(example, trajectory), spent=Spent(calls=1, usd=0.01))


async def _nulls(
    way: str, rollouts: Rollouts, examples: Sequence[Example], tmp_path: Path
) -> list[NullResult]:
    """Check the null models as a domain's baseline, as the search's gate, or in a session."""
    if way == "baseline":
        return await null_results(BASE, DOMAIN, examples, rollouts)
    context = evolve(search_context(rollouts, tmp_path), null_examples=examples)
    if way == "gate":
        return await context.null_check(BASE)
    made: list[list[NullResult]] = []
    await context.propose(asking(context, made), 2, lambda: nullcontext(cast(Workspace, None)))
    return made[0]


def asking(context: SearchPhaseContext, made: list[list[NullResult]]) -> Proposer:
    """Return a proposer that only has the null models checked."""

    class Asking:
        note, writes_code = "", True

        async def propose(self, workspace: Workspace) -> Proposal:
            made.append(await context.null_check(BASE))
            return Proposal(())

    return Asking()


ways = pytest.mark.parametrize("way", ["baseline", "gate", "session"])


def _stops(way: str) -> list[tuple[str, int]]:
    """Return what the journal notes of a stop: the null check's, then that of its session."""
    session = [("session_stopped", 8)] if way == "session" else []
    return [("null_check_stopped", 8), *session]


@ways
def test_caps_hold_for_what_judging_null_models_costs(
    way: str, rollouts: Rollouts, tmp_path: Path
) -> None:
    verifier = Charging(rollouts.folder.path)
    rollouts.executor = RolloutExecutor(DOMAIN, verifier, probe("auto"))
    rollouts.caps = Caps(CapSettings(usd=0.05, rollouts=1), rollouts.folder.path)
    examples = DOMAIN.split("harness")[:4]
    with pytest.raises(CapReached, match=r"cap.usd=0.05 is reached \(0.08 so far\)"):
        asyncio.run(_nulls(way, rollouts, examples, tmp_path))
    assert verifier.said == _stops(way)  # in the ledger to stay: told once
    rollouts.caps = Caps(CapSettings(usd=9), rollouts.folder.path)
    made = asyncio.run(_nulls(way, rollouts, examples, tmp_path))
    assert len(made) == len(DOMAIN.null_models) > 2


@ways
def test_null_models_that_cannot_be_judged_are_settled_too(
    way: str, rollouts: Rollouts, tmp_path: Path
) -> None:
    verifier = Bookkeeper(rollouts.folder.path, spends=False)
    rollouts.executor = RolloutExecutor(DOMAIN, verifier, probe("auto"))
    with pytest.raises(TooMuchNotScored):
        asyncio.run(_nulls(way, rollouts, DOMAIN.split("harness")[:4], tmp_path))
    assert verifier.said == _stops(way)


def test_what_a_session_checked_is_committed_before_the_session_ends(
    rollouts: Rollouts, tmp_path: Path
) -> None:
    """A proposer may remember an answer through a kill: the ledger must remember its cost, and the
    run the answer."""
    verifier = Charging(rollouts.folder.path)
    rollouts.executor = RolloutExecutor(DOMAIN, verifier, probe("auto"))
    context = evolve(search_context(rollouts, tmp_path), null_examples=DOMAIN.split("harness")[:4])
    (_,) = asyncio.run(context.score([BASE], context.shown[:1]))
    recorded = context.traces(BASE)[0]
    verifier.said.clear()

    class Killed(BaseException):
        pass

    class Checking:
        note, writes_code = "", True

        async def propose(self, workspace: Workspace) -> Proposal:
            await context.load_check(BASE)
            await context.smoke(BASE)
            await context.null_check(BASE)
            await context.replay(BASE, recorded)
            raise Killed

    def begin(context: SearchPhaseContext) -> None:
        work = context.propose(Checking(), 2, lambda: nullcontext(cast(Workspace, None)))
        with pytest.raises(Killed):
            asyncio.run(work)

    begin(context)
    nulls = 4 * len(DOMAIN.null_models)
    calls = [1, 5, 5 + nulls, 6 + nulls]
    assert verifier.said == [("session_check", number) for number in calls]
    spent = [line["purpose"] for line in rollouts.folder.read("ledger.jsonl")]
    assert spent.count("smoke") == 2 and spent.count("null") == len(DOMAIN.null_models)
    # Begun again, as after a kill, with what was committed alone: only the rehearsal costs again.
    context = evolve(search_context(rollouts, tmp_path), null_examples=context.null_examples)
    verifier.said.clear()
    begin(context)
    assert verifier.said == [("session_check", 7 + nulls)]


def test_a_rehearsal_looks_at_the_caps(rollouts: Rollouts, tmp_path: Path) -> None:
    context = search_context(rollouts, tmp_path)
    asyncio.run(context.score([BASE], context.shown[:1]))
    rollouts.caps = Caps(CapSettings(tokens=1), rollouts.folder.path)
    with pytest.raises(CapReached, match="before the next rehearsal"):
        asyncio.run(context.replay(BASE, context.traces(BASE)[0]))

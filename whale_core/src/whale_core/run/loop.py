"""The method: θ and h are improved in turns, each under the other (paper, Algorithm 1).

    θ ← ModelUpdate(θ; h, D_weight)        until the weight phase's rule says stop
    h ← HarnessSearch(h; θ, D_harness)     until the harness phase's rule says stop

When to switch is the scheduler's choice, from training signals only. After every phase the pair is
measured on the selection split; the final pass (``finale``) decides on that and opens the test.
A phase is a transaction: an interrupted one is rewound to its start and made again.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator, Mapping, Sequence

from attrs import asdict, define, field

from whale_core.config.settings import CoreSettings
from whale_core.errors import InputError, RunFolderError
from whale_core.keys import content_hash
from whale_core.plugins.events import PhaseInfo
from whale_core.plugins.manager import Observers
from whale_core.records import Json
from whale_core.roles import (
    Harness,
    HarnessPhase,
    Phase,
    PhaseResult,
    RunFacts,
    SearchIteration,
    WeightPhase,
)
from whale_core.run.contexts import SearchPhaseContext, WeightPhaseContext, null_results
from whale_core.run.evaluation import Pair, PairScore, load_pair, measure
from whale_core.run.folder import RunFolder, optimizer_folder, publish_folder, write_atomically
from whale_core.run.ledger import Charge, Ledger
from whale_core.run.parts import Parts
from whale_core.run.rollouts import Rollouts, candidate_json
from whale_core.run.sampler import PromptSampler


@define
class Alternation:
    """The state of a run between phases, and the two kinds of phase."""

    parts: Parts
    core: CoreSettings
    folder: RunFolder
    rollouts: Rollouts
    observers: Observers
    sampler: PromptSampler
    pair: Pair
    number: int = 0  # of the last phase; 0 is the start
    cycle: int = 0
    step: int = 0  # weight steps so far
    last_kind: str = ""
    selection: list[PairScore] = field(factory=list)

    async def run(self, done: Sequence[PhaseResult]) -> None:
        """Run the scheduler's phases to their end; ``done`` are those that ``restore`` returned."""
        if not self.selection:
            await self._check_h0()
            await self._finish_phase("start", None)
        phases = self.parts.scheduler.phases(RunFacts(_steps_per_epoch(self.parts)))
        phase = next(phases, None)
        for number, result in enumerate(done, start=1):
            _check_same(phase, result, number)
            phase = _send(phases, result)
        while phase is not None:
            result = await self._phase(phase)
            phase = _send(phases, result)

    async def _check_h0(self) -> None:
        """Raise ``InputError`` when the harness to start from solves the task itself."""
        for null in await null_results(
            self.pair.harness, self.parts.domain, self.parts.null_examples, self.rollouts
        ):
            if null.refused:
                raise InputError(
                    f"harness {self.pair.harness.name} solves the task itself: the null model "
                    f"{null.name} scores {null.mean:.0%} under it, chance is {null.chance:.0%}"
                )

    async def _phase(self, phase: Phase) -> PhaseResult:
        kind = "weights" if isinstance(phase, WeightPhase) else "harness"
        if kind == "weights" or self.last_kind != "weights":
            self.cycle += 1
        self.number += 1
        self.last_kind = kind
        self.rollouts.phase, self.rollouts.cycle = self.number, self.cycle
        info = PhaseInfo(
            number=self.number,
            cycle=self.cycle,
            kind=kind,
            harness_id=self.pair.harness.id,
            weights_id=self.pair.weights_id,
            planned=phase.until.planned(),
        )
        self.observers.before_phase(info)
        try:
            run_phase = (
                self._weight_phase if isinstance(phase, WeightPhase) else self._harness_phase
            )
            signals = await run_phase(phase, info)  # type: ignore[arg-type]
        except Exception as error:
            self.observers.on_phase_error(info, error)
            raise
        result = PhaseResult(kind, self.cycle, len(signals), tuple(signals))
        await self._finish_phase(kind, result)
        self.observers.after_phase(info, result)
        return result

    async def _weight_phase(self, phase: WeightPhase, info: PhaseInfo) -> list[float]:
        """θ ← ModelUpdate(θ; h)."""
        update = self.parts.update
        if update is None:
            raise InputError(
                "the scheduler wants a weight phase, but no model_update is configured"
            )
        context = WeightPhaseContext(
            engine=self.parts.engine,
            harness=self.pair.harness,
            seed=self.core.seed,
            next_step=self.step + 1,
            sampler=self.sampler,
            rollouts=self.rollouts,
        )
        signals: list[float] = []
        updates = 0
        steps = update.steps(context)
        try:
            async for step in steps:
                self.step = step.step
                updates += step.updates
                signals.append(step.reward)
                charge = Charge(
                    role="trainer",
                    purpose="train",
                    phase=self.number,
                    cycle=self.cycle,
                    trained_tokens=step.trained_tokens,
                    seconds=round(step.seconds - step.rollout_seconds, 3),
                )
                self.folder.append("ledger.jsonl", [self.rollouts.ledger.charge(charge)])
                self.folder.commit("weight_step", phase=self.number, **asdict(step))
                self.observers.on_weight_step(info, step)
                if phase.until.observe(step.reward):
                    break
        finally:
            await steps.aclose()
        if updates:
            await self._checkpoint()
        return signals

    async def _checkpoint(self) -> None:
        """Write weights and optimizer state; each is complete before it has its name."""
        assert self.parts.update is not None
        weights = self.folder.path / "weights" / f"step-{self.step:06d}"
        part = weights.with_name(f".{weights.name}.part")
        shutil.rmtree(part, ignore_errors=True)  # of a run that was stopped while writing
        weights_id = await self.parts.engine.save(part)
        publish_folder(part, weights)
        part.mkdir()
        await self.parts.update.save(part)
        publish_folder(part, optimizer_folder(weights))
        self.pair = Pair(self.pair.harness, weights.name, weights_id)

    async def _harness_phase(self, phase: HarnessPhase, info: PhaseInfo) -> list[float]:
        """H ← HarnessSearch(h; θ)."""
        search = self.parts.search
        if search is None:
            raise InputError(
                "the scheduler wants a harness phase, but no harness_search is configured"
            )
        context = SearchPhaseContext(
            domain=self.parts.domain,
            harness=self.pair.harness,
            weights_id=self.pair.weights_id,
            cycle=self.cycle,
            phase=self.number,
            seed=self.core.seed,
            folder=self.folder.path / "harnesses",
            examples=self.parts.score_examples,
            null_examples=self.parts.null_examples,
            draws=self.core.search.draws,
            jail_kind=self.parts.jail_kind,
            rollouts=self.rollouts,
        )
        signals: list[float] = []
        accepted = self.pair.harness
        iterations = search.iterations(context)
        try:
            async for iteration in iterations:
                signals.append(iteration.best)
                accepted = iteration.accepted
                self._commit_iteration(iteration)
                self.observers.on_search_iteration(info, iteration)
                if phase.until.observe(iteration.best):
                    break
        finally:
            await iterations.aclose()
        self.pair = Pair(accepted, self.pair.checkpoint, self.pair.weights_id)
        return signals

    def _commit_iteration(self, iteration: SearchIteration) -> None:
        if iteration.proposer_tokens or iteration.proposer_usd:
            charge = Charge(
                role="proposer",
                purpose="propose",
                phase=self.number,
                cycle=self.cycle,
                proposer_tokens=iteration.proposer_tokens,
                usd=iteration.proposer_usd,
            )
            self.folder.append("ledger.jsonl", [self.rollouts.ledger.charge(charge)])
        self.folder.commit(
            "search_iteration",
            phase=self.number,
            iteration=iteration.iteration,
            best=iteration.best,
            accepted=iteration.accepted.name,
            accepted_id=iteration.accepted.id,
            reason=iteration.accepted_reason,
            seconds=iteration.seconds,
            candidates=[candidate_json(candidate) for candidate in iteration.candidates],
        )

    async def _finish_phase(self, kind: str, result: PhaseResult | None) -> None:
        """Measure the pair on the selection split and commit the phase."""
        score = await measure(
            self.rollouts,
            self.pair,
            "selection",
            self.parts.selection_examples,
            self.core.selection.draws,
            "select",
        )
        self.observers.on_evaluation(score.event(f"phase {self.number}"))
        self.selection.append(score)
        source = self.folder.path / "accepted" / f"phase-{self.number:03d}.py"
        source.parent.mkdir(exist_ok=True)
        write_atomically(source, lambda part: part.write_bytes(self.pair.harness.source.encode()))
        search = self.parts.search
        self.folder.commit(
            "phase_done",
            phase=self.number,
            kind=kind,
            cycle=self.cycle,
            step=self.step,
            result=None if result is None else asdict(result),
            harness=self.pair.harness.name,
            harness_id=self.pair.harness.id,
            checkpoint=self.pair.checkpoint,
            weights_id=self.pair.weights_id,
            sampler={"epoch": self.sampler.epoch, "taken": self.sampler.taken},
            search=None if search is None else search.mark(),
            selection=score.as_json(),
        )
        for folder in (self.folder.path / "weights").glob("*-optimizer"):
            if folder.name != f"{self.pair.checkpoint}-optimizer":
                shutil.rmtree(folder)  # only the newest optimizer state is kept

    async def restore(self) -> list[PhaseResult]:
        """Take up the state of the last finished phase; return the results of all finished ones.

        What an interrupted phase left behind is dropped: its journal lines, rollouts and charges,
        the search's archive entries, and the weights in memory.
        """
        entries = self.folder.entries
        done = [entry for entry in entries if entry["event"] == "phase_done"]
        if not done:
            self.folder.rewind(1)
            if self.parts.search is not None:
                self.parts.search.restore(self.folder.path / "harnesses", None)
            return []
        last = done[-1]
        decided = any(entry["event"] == "decision" for entry in entries)
        self.folder.rewind(len(entries) if decided else entries.index(last) + 1)
        self.rollouts.ledger = Ledger(self.folder.read("ledger.jsonl"))
        self.number, self.cycle, self.step = last["phase"], last["cycle"], last["step"]
        self.last_kind = last["kind"]
        self.sampler.epoch, self.sampler.taken = last["sampler"]["epoch"], last["sampler"]["taken"]
        self.selection = [self._restored_score(entry) for entry in done]
        self.pair = self.selection[-1].pair
        self.rollouts.phase, self.rollouts.cycle = self.number, self.cycle
        await load_pair(self.parts.engine, self.folder.path, self.pair)
        if self.pair.checkpoint and self.parts.update is not None:
            state = optimizer_folder(self.folder.path / "weights" / self.pair.checkpoint)
            await self.parts.update.load(state, self.parts.engine)
        if self.parts.search is not None:
            self.parts.search.restore(self.folder.path / "harnesses", last["search"])
        results = [entry["result"] for entry in done if entry["result"] is not None]
        return [PhaseResult(**{**r, "signals": tuple(r["signals"])}) for r in results]

    def _restored_score(self, entry: Mapping[str, Json]) -> PairScore:
        path = self.folder.path / "accepted" / f"phase-{entry['phase']:03d}.py"
        source = path.read_bytes().decode()
        if content_hash(source) != entry["harness_id"]:
            raise RunFolderError(f"{path} was changed: it is not the harness that was accepted")
        harness = Harness(entry["harness_id"], source, entry["harness"])
        pair = Pair(harness, entry["checkpoint"], entry["weights_id"])
        return PairScore.from_json(pair, entry["selection"])


def _steps_per_epoch(parts: Parts) -> int:
    prompts = len(parts.domain.split("weight"))
    return parts.update.steps_per_epoch(prompts) if parts.update is not None else 1


def _check_same(phase: Phase | None, result: PhaseResult, number: int) -> None:
    kind = {WeightPhase: "weights", HarnessPhase: "harness"}.get(type(phase), "the end")
    if kind != result.kind:
        raise RunFolderError(
            f"the scheduler now wants {kind} where the journal has phase {number} ({result.kind}): "
            "its settings or its version changed since the run was started"
        )


def _send(phases: Generator[Phase, PhaseResult, None], result: PhaseResult) -> Phase | None:
    try:
        return phases.send(result)
    except StopIteration:
        return None

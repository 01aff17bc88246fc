"""The method: θ and h are improved in turns, each under the other (paper, Algorithm 1).

    θ ← ModelUpdate(θ; h, D_weight)        until the weight phase's rule says stop
    h ← HarnessSearch(h; θ, D_harness)     until the harness phase's rule says stop

When to switch is the scheduler's choice, from training signals only. After every phase the pair is
measured on the selection split; the final pass (``finale``) decides on that and opens the test.
After an interruption ``restore`` brings back the last finished phase (and, within a weight phase,
the last checkpoint); from there the same code runs again over what was recorded (``journal``).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

import numpy as np
from attrs import asdict, define, evolve, field

from whale_core.abilities import Concludes
from whale_core.config.settings import CoreSettings
from whale_core.errors import CapReached, InputError, Interrupted, RunFolderError
from whale_core.plugins.events import PhaseInfo
from whale_core.plugins.manager import Observers
from whale_core.records import Json
from whale_core.roles import (
    Conclusion,
    HarnessPhase,
    Phase,
    PhaseResult,
    SearchIteration,
    WeightPhase,
    WeightStep,
    begins_cycle,
    kind_of,
)
from whale_core.run.checkpoints import load_optimizer, remove_weights, write_checkpoint
from whale_core.run.contexts import WeightPhaseContext, null_results, search_context
from whale_core.run.evaluation import Pair, PairScore, load_pair, measure
from whale_core.run.folder import RunFolder, write_atomically
from whale_core.run.ledger import trainer_charge
from whale_core.run.paired import paired
from whale_core.run.parts import Parts
from whale_core.run.restore import Checkpoint, PhaseEnd, Standing, accepted_harness, accepted_path
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
    searches: int = 0  # harness phases so far
    first_kind: str = ""  # of phases: when it comes again, a cycle begins
    selection: list[PairScore] = field(factory=list)
    taken: list[float] = field(factory=list)  # signals of this phase's steps up to a checkpoint

    async def run(self, done: Sequence[PhaseResult]) -> None:
        """Run the scheduler's phases to their end; ``done`` are those that ``restore`` returned."""
        if not self.selection:
            await self._check_h0()
            await self._finish_phase("start", ())
        phases = self.parts.scheduler.phases(self.parts.facts)
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
        kind = kind_of(phase)
        self.first_kind = self.first_kind or kind
        self.cycle += begins_cycle(kind, self.first_kind)
        self.number += 1
        self.rollouts.phase, self.rollouts.cycle = self.number, self.cycle
        info = PhaseInfo(
            number=self.number,
            cycle=self.cycle,
            kind=kind,
            harness_id=self.pair.harness.id,
            weights_id=self.pair.weights_id,
            planned=phase.until.planned(),
            done=_units_done(self.folder, self.number),
        )
        self.observers.before_phase(info)
        try:
            run_phase = (
                self._weight_phase if isinstance(phase, WeightPhase) else self._harness_phase
            )
            signals = await run_phase(phase, info)  # type: ignore[arg-type]
        except (CapReached, Interrupted):
            raise
        except Exception as error:
            self.observers.on_phase_error(info, error)
            raise
        result = await self._finish_phase(kind, signals)
        self.observers.after_phase(info, result)
        return result

    async def _weight_phase(self, phase: WeightPhase, info: PhaseInfo) -> list[float]:
        """θ ← ModelUpdate(θ; h)."""
        update = self.parts.update
        if update is None:
            raise InputError(
                "the scheduler wants a weight phase, but no model_update is configured"
            )
        signals, self.taken = self.taken, []
        over = [phase.until.observe(signal) for signal in signals][-1:] == [True]
        context = WeightPhaseContext(
            engine=self.parts.engine,
            harness=self.pair.harness,
            seed=self.core.seed,
            next_step=self.step + 1,
            sampler=self.sampler,
            rollouts=self.rollouts,
        )
        if over:  # stopped between the phase's last checkpoint and its end
            return signals
        since, updates = 0, 0  # the last checkpoint
        steps = update.steps(context)
        try:
            async for step in steps:
                self.step = step.step
                step = evolve(step, reasons=context.reasons(step.step))
                signals.append(step.reward)
                await self._commit_step(step, info)
                since, updates = since + 1, updates + step.updates
                if phase.until.observe(step.reward):
                    break
                if updates and since >= self.core.checkpoint_steps and not step.unsettled:
                    await self._checkpoint()
                    since, updates = 0, 0
        finally:
            await steps.aclose()
        if updates:
            await self._checkpoint()
        return signals

    async def _commit_step(self, step: WeightStep, info: PhaseInfo) -> None:
        served = await self.parts.engine.weights_id()
        # From here to the commit nothing else may run.
        self.rollouts.charge(trainer_charge(step, self.number, self.cycle))
        told = not self.folder.replaying
        self.folder.commit("weight_step", phase=self.number, weights_id=served, **asdict(step))
        if told:
            self.observers.on_weight_step(info, step)

    async def _checkpoint(self) -> None:
        """Keep weights and optimizer state; what they replace goes with the same journal line."""
        assert self.parts.update is not None
        run, before = self.folder.path, self.pair.checkpoint
        name = f"step-{self.step:06d}"
        weights_id, state = await write_checkpoint(run, name, self.parts.engine, self.parts.update)
        retired = [f"{before}-optimizer"] if before else []
        if before and before != self.selection[-1].pair.checkpoint:
            retired.append(before)  # not the end of a phase
        self.pair = Pair(self.pair.harness, name, weights_id)
        line = Checkpoint(
            phase=self.number,
            step=self.step,
            name=name,
            weights_id=weights_id,
            optimizer=state,
            sampler=self.sampler.mark(),
            retired=retired,
        )
        self.folder.commit("checkpoint", **asdict(line))
        remove_weights(run, retired)

    async def _harness_phase(self, phase: HarnessPhase, info: PhaseInfo) -> list[float]:
        """H ← HarnessSearch(h; θ)."""
        search = self.parts.search
        if search is None:
            raise InputError(
                "the scheduler wants a harness phase, but no harness_search is configured"
            )
        context = search_context(
            self.parts,
            self.core,
            self.rollouts,
            self.pair.harness,
            self.pair.weights_id,
            self.searches,
        )
        signals: list[float] = []
        accepted = self.pair.harness
        iterations = search.iterations(context)
        try:
            async for iteration in iterations:
                signals.append(iteration.best)
                accepted = iteration.accepted
                self._commit_iteration(iteration, info)
                if phase.until.observe(iteration.best):
                    break
        finally:
            await iterations.aclose()
        if isinstance(search, Concludes):
            conclusion = await search.conclude(context)
            if conclusion is not None:
                accepted = conclusion.accepted
                self._commit_conclusion(conclusion, info)
        self.searches += 1
        self.pair = Pair(accepted, self.pair.checkpoint, self.pair.weights_id)
        return signals

    def _commit_iteration(self, iteration: SearchIteration, info: PhaseInfo) -> None:
        told = not self.folder.replaying
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
        if told:
            self.observers.on_search_iteration(info, iteration)

    def _commit_conclusion(self, conclusion: Conclusion, info: PhaseInfo) -> None:
        told = not self.folder.replaying
        self.folder.commit(
            "search_conclusion",
            phase=self.number,
            accepted=conclusion.accepted.name,
            accepted_id=conclusion.accepted.id,
            reason=conclusion.accepted_reason,
            seconds=conclusion.seconds,
            candidates=[candidate_json(candidate) for candidate in conclusion.candidates],
        )
        if told:
            self.observers.on_search_conclusion(info, conclusion)

    async def _finish_phase(self, kind: str, signals: Sequence[float]) -> PhaseResult:
        """Measure the pair on the selection split and commit the phase; return its result."""
        score = await measure(
            self.rollouts,
            self.pair,
            "selection",
            self.parts.selection_examples,
            self.core.selection.draws,
            "select",
        )
        gain = _gain(self.selection[-1], score) if self.selection else None
        result = PhaseResult(kind, self.cycle, len(signals), tuple(signals), gain)
        self.selection.append(score)
        source = accepted_path(self.folder.path, self.number)
        write_atomically(source, lambda part: part.write_bytes(self.pair.harness.source.encode()))
        search = self.parts.search
        line = PhaseEnd(
            phase=self.number,
            kind=kind,
            cycle=self.cycle,
            step=self.step,
            result=asdict(result) if self.number else None,
            harness=self.pair.harness.name,
            harness_id=self.pair.harness.id,
            checkpoint=self.pair.checkpoint,
            weights_id=self.pair.weights_id,
            sampler=self.sampler.mark(),
            search=None if search is None else search.mark(),
            selection=score.as_json(),
        )
        self.folder.commit("phase_done", **asdict(line))
        self.observers.on_evaluation(score.event(f"phase {self.number}"))
        return result

    async def restore(self) -> list[PhaseResult]:
        """Take up the state that the journal names; return the results of all finished phases.

        Raises:
            RunFolderError: files are not what the journal says of them.
        """
        standing = Standing.read(self.folder)
        self.folder.replay_from(standing.replay_from)
        remove_weights(self.folder.path, standing.retired)
        if self.parts.search is not None:
            mark = standing.ends[-1].search if standing.ends else None
            self.parts.search.restore(self.folder.path / "harnesses", mark)
        for end in standing.ends:
            harness = accepted_harness(self.folder.path, end)
            pair = Pair(harness, end.checkpoint, end.weights_id)
            self.selection.append(PairScore.from_json(pair, end.selection))
        if standing.ends:
            last = standing.ends[-1]
            self.searches = sum(end.kind == "harness" for end in standing.ends)
            self.number, self.cycle = last.phase, last.cycle
            self.first_kind = standing.ends[1].kind if last.phase else ""
            self.step, sampler = last.step, last.sampler
            self.pair = self.selection[-1].pair
            if (point := standing.checkpoint) is not None and point.phase > last.phase:
                self.step, sampler, self.taken = point.step, point.sampler, standing.taken
                self.pair = Pair(self.pair.harness, point.name, point.weights_id)
            self.sampler.go_to(sampler)
            self.rollouts.phase, self.rollouts.cycle = self.number, self.cycle
            await load_pair(self.parts.engine, self.folder.path, self.pair)
            if standing.checkpoint is not None and self.parts.update is not None:
                await load_optimizer(
                    self.folder.path,
                    standing.checkpoint.name,
                    standing.checkpoint.optimizer,
                    self.parts.engine,
                    self.parts.update,
                )
        return [PhaseResult(**_as_tuple(end.result)) for end in standing.ends if end.result]


def _units_done(folder: RunFolder, phase: int) -> int:
    """Return how many steps or iterations of a phase the journal has already."""
    units = ("weight_step", "search_iteration")
    return sum(e["event"] in units and e["phase"] == phase for e in folder.entries)


def _gain(before: PairScore, after: PairScore) -> float | None:
    """Return the mean difference over the examples scored both times; None if there are none."""
    now, then = paired(after.means, before.means)
    return float(np.mean(now - then)) if len(now) else None


def _as_tuple(result: Mapping[str, Json]) -> dict[str, Json]:
    return {**result, "signals": tuple(result["signals"])}


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

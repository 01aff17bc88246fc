"""The probe at work: a search and a weight phase from one state, and the four pairs measured."""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from attrs import asdict, define

from whale_core.abilities import Concludes
from whale_core.config import Resolved
from whale_core.config.settings import CoreSettings
from whale_core.errors import RunFolderError
from whale_core.evidence.diagnosis import (
    Cost,
    SearchFacts,
    TrainingFacts,
    diagnose,
)
from whale_core.evidence.probe_size import Budget, lengths
from whale_core.evidence.probed import Probed, gains_of
from whale_core.evidence.scratch import scratch_rollouts
from whale_core.evidence.start import Start
from whale_core.plugins.manager import Observers
from whale_core.records import Example, Json
from whale_core.roles import (
    Conclusion,
    Harness,
    HarnessSearch,
    ModelUpdate,
    SearchIteration,
    WeightStep,
)
from whale_core.run.checkpoints import load_optimizer
from whale_core.run.contexts import WeightPhaseContext, search_context
from whale_core.run.evaluation import Pair, PairScore, load_pair, measure
from whale_core.run.ledger import Ledger, trainer_charge
from whale_core.run.parts import Parts
from whale_core.run.rollouts import Rollouts
from whale_core.run.sampler import PromptSampler


@asynccontextmanager
async def open_bench(
    resolved: Resolved, parts: Parts, observers: Observers, start: Start
) -> AsyncIterator[Bench]:
    """Open a folder for the probe, bring everything to ``start``, and remove the folder after."""
    core = resolved.core
    assert parts.update is not None and parts.search is not None
    with scratch_rollouts("diagnose", resolved, parts, observers, Ledger(), core.seed) as rollouts:
        rollouts.phase, rollouts.cycle = start.phase + 1, start.cycle + 1
        bench = Bench(resolved, parts, core, parts.update, parts.search, rollouts, start, observers)
        await bench.take_up()
        yield bench


@define
class Bench:
    """The probe at work."""

    resolved: Resolved
    parts: Parts
    core: CoreSettings
    update: ModelUpdate
    searcher: HarnessSearch
    rollouts: Rollouts
    start: Start
    observers: Observers
    weights_id: str = ""

    async def take_up(self) -> None:
        """Serve the state's weights, and give update and search what they had there."""
        start, folder = self.start, self.rollouts.folder.path
        archive = folder / "harnesses"
        if start.run is None:
            self.weights_id = await self.parts.engine.weights_id()
            self.searcher.restore(archive, None)
            return
        assert start.weights_id is not None
        pair = Pair(start.harness, start.checkpoint, start.weights_id)
        await load_pair(self.parts.engine, start.run, pair)
        self.weights_id = start.weights_id
        try:
            shutil.copytree(start.run / "harnesses", archive, dirs_exist_ok=True)
        except (OSError, shutil.Error) as error:
            raise RunFolderError(f"{start.run / 'harnesses'} cannot be read: {error}") from error
        self.searcher.restore(archive, start.search)
        if start.optimizer is not None:
            await load_optimizer(
                start.run,
                start.optimizer.checkpoint,
                start.optimizer.state,
                self.parts.engine,
                self.update,
            )

    async def probed(
        self, held: Sequence[Example], budget: Budget, started: float, notes: tuple[str, ...]
    ) -> Probed:
        """Probe both coordinates and measure the four pairs."""
        draws = budget.draws or self.core.selection.draws
        steps, iterations = lengths(self.parts.facts, budget.rollouts)
        h, before = self.start.harness, self.weights_id
        pairs: dict[str, PairScore] = {}
        confirmation = Cost()

        async def confirm(name: str, harness: Harness, weights_id: str) -> None:
            nonlocal confirmation
            pair = Pair(harness, None, weights_id)
            asked, begun = (harness.id, weights_id), self._spent()
            same = [s for s in pairs.values() if (s.pair.harness.id, s.pair.weights_id) == asked]
            pairs[name] = (
                same[0]
                if same
                else await measure(self.rollouts, pair, "selection", held, draws, "probe")
            )
            confirmation += self._since(begun)

        await confirm("theta_h", h, before)
        found, search = await self.search(iterations)
        await confirm("theta_h1", found, before)
        training = await self.train(steps)
        after = await self.parts.engine.weights_id()
        await confirm("theta1_h", h, after)
        await confirm("theta1_h1", found, after)
        gains = gains_of(pairs, draws)
        return Probed(
            diagnosis=diagnose(gains, search, training),
            gains=gains,
            search=search,
            training=training,
            pairs=pairs,
            state=self._state(),
            confirmation=confirmation,
            ledger=self.rollouts.ledger.totals(),
            seconds=time.monotonic() - started,
            notes=notes,
        )

    async def search(self, iterations: int) -> tuple[Harness, SearchFacts]:
        """Search for ``iterations``; return the harness accepted at the end."""
        start, begun = self.start, self._spent()
        context = search_context(
            self.parts, self.core, self.rollouts, start.harness, self.weights_id, start.searches
        )
        made: list[SearchIteration] = []
        searching = self.searcher.iterations(context)
        try:
            async for iteration in searching:
                made.append(iteration)
                self._tell(f"search: iteration {len(made)} of {iterations}", iteration.best)
                if len(made) == iterations:
                    break
        finally:
            await searching.aclose()
        end: Conclusion | SearchIteration = made[-1]
        if isinstance(self.searcher, Concludes):
            end = await self.searcher.conclude(context) or end
        tried = [candidate for each in made[1:] for candidate in each.candidates]
        return end.accepted, SearchFacts(
            iterations=len(made),
            candidates=len(tried),
            rejected=sum(candidate.rejection is not None for candidate in tried),
            accepted=end.accepted.name,
            reason=end.accepted_reason,
            changed=end.accepted.id != start.harness.id,
            cost=self._since(begun),
        )

    async def train(self, steps: int) -> TrainingFacts:
        """Make ``steps`` weight steps; the engine then serves θ1."""
        begun = self._spent()
        sampler = PromptSampler(self.parts.domain.split("weight"), self.core.seed)
        if self.start.sampler is not None:
            sampler.go_to(self.start.sampler)
        context = WeightPhaseContext(
            engine=self.parts.engine,
            harness=self.start.harness,
            seed=self.core.seed,
            next_step=self.start.step + 1,
            sampler=sampler,
            rollouts=self.rollouts,
        )
        made: list[WeightStep] = []
        training = self.update.steps(context)
        try:
            async for step in training:
                made.append(step)
                rollouts = self.rollouts
                rollouts.charge(trainer_charge(step, rollouts.phase, rollouts.cycle))
                self._tell(f"training: step {len(made)} of {steps}", step.reward)
                if len(made) == steps:
                    break
        finally:
            await training.aclose()
        return TrainingFacts(
            steps=len(made),
            rollouts=sum(step.rollouts for step in made),
            scored=sum(step.scored for step in made),
            accepted=sum(step.accepted for step in made),
            updates=sum(step.updates for step in made),
            rewards=tuple(step.reward for step in made),
            changed_share=made[-1].changed_share,
            cost=self._since(begun),
        )

    def _tell(self, what: str, signal: float) -> None:
        self.observers.on_notice(f"{what}, {100 * signal:.1f} %")

    def _spent(self) -> Cost:
        """Return what the ledger has so far; ``seconds`` is the clock."""
        total = self.rollouts.ledger.total
        return Cost(
            rollouts=int(total("rollouts")),
            prompt_tokens=int(total("prompt_tokens")),
            sampled_tokens=int(total("sampled_tokens")),
            trained_tokens=int(total("trained_tokens")),
            usd=total("usd"),
            seconds=time.monotonic(),
        )

    def _since(self, before: Cost) -> Cost:
        now = asdict(self._spent())
        rest = {name: now[name] - value for name, value in asdict(before).items()}
        return Cost(**{**rest, "seconds": round(rest["seconds"], 3), "usd": round(rest["usd"], 9)})

    def _state(self) -> dict[str, Json]:
        start = self.start
        return {
            "plugin_set": self.resolved.plugin_set,
            "settings_hash": self.resolved.settings_hash(),
            "run": None if start.run is None else str(start.run),
            "seed": self.core.seed,
            "phase": start.phase,
            "step": start.step,
            "checkpoint": start.checkpoint,
            "weights_id": self.weights_id,
            "harness": start.harness.name,
            "harness_id": start.harness.id,
            "engine": dict(self.parts.engine.facts()),
        }

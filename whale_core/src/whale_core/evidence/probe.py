"""A bounded probe of both coordinates from one state, with a run's own parts (``diagnosis``).

The search and the weight phase are those of a run: the same plugins, contexts and executor, in a
folder that is removed afterwards. Neither sees the selection split; the four pairs are measured
there on common draws that nothing else uses (purpose ``probe``), first on examples that the run's
own evaluations leave out. The test split stays sealed.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from attrs import asdict, define, frozen

from whale_core.abilities import Concludes
from whale_core.config import Resolved
from whale_core.config.settings import CoreSettings
from whale_core.errors import InputError, RunFolderError
from whale_core.evidence.diagnosis import (
    Cost,
    Diagnosis,
    Gains,
    SearchFacts,
    TrainingFacts,
    diagnose,
    gain_json,
)
from whale_core.evidence.scratch import scratch_rollouts
from whale_core.evidence.start import Start, check_same_task
from whale_core.keys import generator
from whale_core.plugins.manager import Observers, Plugins
from whale_core.records import Example, Json
from whale_core.roles import (
    Conclusion,
    Domain,
    Harness,
    HarnessSearch,
    ModelUpdate,
    RunFacts,
    SearchIteration,
    WeightStep,
)
from whale_core.run.checkpoints import load_optimizer
from whale_core.run.contexts import SearchPhaseContext, WeightPhaseContext
from whale_core.run.evaluation import Pair, PairScore, load_pair, measure
from whale_core.run.ledger import Charge, Ledger, spent_charge
from whale_core.run.paired import paired
from whale_core.run.parts import Parts, build_parts, check_loads, sampling_of
from whale_core.run.reader import StoredRun
from whale_core.run.rollouts import Rollouts
from whale_core.run.sampler import PromptSampler
from whale_core.run.services import close_each, probe_all
from whale_core.run.stopping import stopping_at_once
from whale_core.stats import Array, Interval, paired_difference

FEW = 3  # steps and iterations of a probe whose rollouts nobody sets
CORNERS = ("theta_h", "theta_h1", "theta1_h", "theta1_h1")


@frozen
class Budget:
    """``rollouts`` of each coordinate's probe, and ``examples`` × ``draws`` of each confirmation.

    None: three steps or three iterations, whichever takes more; as many as ``selection`` says.
    """

    rollouts: int | None = None
    examples: int | None = None
    draws: int | None = None

    def check(self) -> None:
        """Raise ``InputError`` for a number below 1."""
        for name, value in asdict(self).items():
            if value is not None and value < 1:
                raise InputError(f"--{name} {value}: give at least 1")


@frozen
class Probed:
    """A finished probe: the diagnosis and everything that was measured for it."""

    diagnosis: Diagnosis
    gains: Gains
    search: SearchFacts
    training: TrainingFacts
    pairs: dict[str, PairScore]
    state: dict[str, Json]
    confirmation: Cost
    ledger: dict[str, Json]
    seconds: float
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Json]:
        """Return everything but the example means as plain JSON."""
        gains = {
            "harness": gain_json(self.gains.harness, self.search.cost),
            "weights": gain_json(self.gains.weights, self.training.cost),
            "both": gain_json(self.gains.both, self.search.cost + self.training.cost),
        }
        pairs = {name: score.as_json() for name, score in self.pairs.items()}
        for each in pairs.values():
            del each["means"]
        return {
            **self.diagnosis.as_json(),
            "state": self.state,
            "gains": gains,
            "ahead": asdict(self.gains.ahead),
            "pairs": pairs,
            "search": asdict(self.search),
            "training": {**asdict(self.training), "acceptance": self.training.acceptance},
            "confirmation": asdict(self.confirmation),
            "ledger": self.ledger,
            "seconds": round(self.seconds, 1),
            "notes": list(self.notes),
        }


def probe_set(resolved: Resolved, plugins: Plugins, budget: Budget) -> Probed:
    """Probe the state that a run with these settings would start from.

    Raises:
        InputError: the settings lack a coordinate, or the budget is none.
        WhaleError: a run with these settings could not be started, or it stopped.
    """
    budget.check()
    return _probe(resolved, plugins, None, budget)


def probe_run(run: StoredRun, resolved: Resolved, plugins: Plugins, budget: Budget) -> Probed:
    """Probe the state in which ``run`` stands, with its settings; nothing is written into it.

    Raises:
        RunFolderError: the run has no state yet, or its files or its task are not as they were.
        InputError, WhaleError: as ``probe_set``.
    """
    budget.check()
    return _probe(resolved, plugins, Start.of_run(run), budget)


def _probe(resolved: Resolved, plugins: Plugins, start: Start | None, budget: Budget) -> Probed:
    missing = [role for role in ("model_update", "harness_search") if role not in resolved.chosen]
    if missing:
        raise InputError(
            f"a diagnosis probes both coordinates, but {' and '.join(missing)} is not set: "
            f"choose one, {missing[0]}=…"
        )
    parts = build_parts(resolved, plugins, None if start is None else start.harness.source)

    async def work() -> Probed:
        try:
            with stopping_at_once():
                return await _probed(resolved, parts, plugins.hooks, start, budget)
        finally:
            await close_each(*parts.closing)

    return asyncio.run(work())


async def _probed(
    resolved: Resolved, parts: Parts, observers: Observers, start: Start | None, budget: Budget
) -> Probed:
    started = time.monotonic()
    core = resolved.core
    await check_loads(parts)
    spent = await probe_all(
        parts.unsealed,
        parts.verifier,
        parts.engine,
        sampling_of(core.rollout),
        parts.proposer,
        parts.update,
    )
    if start is not None and start.run is not None:
        check_same_task(start.run, parts.domain, parts.verifier)
    examples = budget.examples or core.selection.examples
    held, note = held_examples(parts.domain, examples, core.selection.examples)
    notes = tuple(each for each in (*parts.notes, note) if each)
    for each in notes:
        observers.on_notice(each)
    async with _bench(resolved, parts, observers, start or Start(parts.h0)) as bench:
        for role, cost in spent.items():
            bench.rollouts.charge(spent_charge(role, cost, "probe"))
        return await bench.probed(held, budget, started, notes)


def held_examples(domain: Domain, count: int, used: int) -> tuple[tuple[Example, ...], str]:
    """Return ``count`` examples of ``selection``, those first that evaluations between phases
    (``used`` of them) leave out, and a note where there are too few of these."""
    split = domain.split("selection")
    order = generator("examples", "selection").permutation(len(split))[::-1][:count]
    shared = max(0, min(count, len(split)) - max(0, len(split) - used))
    note = ""
    if count > len(split):
        note = f"{count} examples wanted, but the selection split has {len(split)}: all are used"
    elif shared:
        note = (
            f"{shared} of {count} confirming examples are also those of the run's evaluations "
            "(other draws; neither probe sees them)"
        )
    return tuple(split[int(index)] for index in order), note


def lengths(facts: RunFacts, rollouts: int | None) -> tuple[int, int]:
    """Return how many weight steps and search iterations take about ``rollouts`` each.

    At least one step, and two iterations: the first only scores the incoming harness. None takes
    three of what takes more. Where nobody says what a unit takes, there are three.
    """
    first = facts.search_rollouts(1)
    per_step, per_iteration = facts.rollouts_per_step, facts.search_rollouts(2) - first
    wanted = rollouts
    if wanted is None:
        wanted = max(FEW * per_step, facts.search_rollouts(FEW) if per_iteration else 0)
    steps = max(1, round(wanted / per_step)) if per_step else FEW
    iterations = max(2, 1 + round((wanted - first) / per_iteration)) if per_iteration else FEW
    return steps, iterations


@asynccontextmanager
async def _bench(
    resolved: Resolved, parts: Parts, observers: Observers, start: Start
) -> AsyncIterator[_Bench]:
    """Open a folder for the probe, bring everything to ``start``, and remove the folder after."""
    core = resolved.core
    assert parts.update is not None and parts.search is not None
    with scratch_rollouts("diagnose", resolved, parts, observers, Ledger(), core.seed) as rollouts:
        rollouts.phase, rollouts.cycle = start.phase + 1, start.cycle + 1
        bench = _Bench(
            resolved, parts, core, parts.update, parts.search, rollouts, start, observers
        )
        await bench.take_up()
        yield bench


@define
class _Bench:
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
        begun, context = self._spent(), self._search_context()
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
            changed=end.accepted.id != self.start.harness.id,
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
                self._charge(step)
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

    def _search_context(self) -> SearchPhaseContext:
        return SearchPhaseContext(
            domain=self.parts.domain,
            harness=self.start.harness,
            weights_id=self.weights_id,
            cycle=self.rollouts.cycle,
            phase=self.rollouts.phase,
            seed=self.core.seed,
            folder=self.rollouts.folder.path / "harnesses",
            sample=self.parts.harness_sample(self.start.searches),
            null_examples=self.parts.null_examples,
            draws=self.core.search.draws,
            jail_kind=self.parts.jail_kind,
            rollouts=self.rollouts,
        )

    def _charge(self, step: WeightStep) -> None:
        self.rollouts.charge(
            Charge(
                role="trainer",
                purpose="train",
                phase=self.rollouts.phase,
                cycle=self.rollouts.cycle,
                trained_tokens=step.trained_tokens,
                seconds=round(step.seconds - step.rollout_seconds, 3),
            )
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


def gains_of(pairs: dict[str, PairScore], draws: int) -> Gains:
    """Return the paired differences between the ``CORNERS``, on examples scored in all of them.

    Raises:
        InputError: there is none.
    """
    scores = [pairs[name] for name in CORNERS]
    base, harness, weights, pair = paired(*(score.means for score in scores))
    if not len(base):
        raise InputError("no confirming example was scored under all four pairs: nothing compares")

    def gain(a: int, b: int, now: Array, then: Array) -> Interval:
        """Return exactly nothing where the pairs ``a`` and ``b`` are one."""
        same = scores[a] is scores[b]
        return Interval(0.0, 0.0, 0.0) if same else paired_difference(now, then)

    return Gains(
        base=scores[0].interval,
        harness=gain(1, 0, harness, base),
        weights=gain(2, 0, weights, base),
        both=gain(3, 0, pair, base),
        ahead=gain(1, 2, harness, weights),
        examples=len(base),
        draws=draws,
    )

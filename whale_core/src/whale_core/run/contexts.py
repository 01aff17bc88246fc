"""What the core hands to the two coordinates: a context for one phase."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cattrs
import numpy as np
from attrs import define, evolve, field

from whale_core.abilities import Pays
from whale_core.errors import (
    CapReached,
    EngineError,
    Interrupted,
    RunFolderError,
    TooMuchNotScored,
)
from whale_core.jail import HarnessLoadError, open_jail
from whale_core.records import Example, Json, Outcome, Replayed, Row, Spent, Trajectory
from whale_core.roles import (
    Domain,
    Group,
    Harness,
    NullResult,
    Proposal,
    Proposer,
    RolloutEngine,
    Score,
    Workspace,
)
from whale_core.rollout.policy import NullPolicy
from whale_core.rollout.reasons import count_reasons, is_crash, without_message
from whale_core.rollout.rows import build_rows
from whale_core.run.archive import best_of, read_archive
from whale_core.run.folder import (
    ANSWERS,
    CHECKS,
    DISK_TROUBLE,
    STOPPED,
    RunFolder,
    errno_of,
    write_atomically,
)
from whale_core.run.harness_sample import HarnessSample
from whale_core.run.ledger import judge_charge, spent_charge
from whale_core.run.replay import replay_with
from whale_core.run.rollouts import Rollouts, score_of
from whale_core.run.sampler import PromptSampler
from whale_core.stats import exceeds_chance

if TYPE_CHECKING:
    from whale_core.config.settings import CoreSettings
    from whale_core.run.parts import Parts

NULL_ERROR_RATE = 0.001  # per null model: a clean harness is refused once in a thousand
SMOKE_EXAMPLES = 4
STOPS = (CapReached, Interrupted, EngineError, TooMuchNotScored)  # of the run, in a session


@define
class WeightPhaseContext:
    """Implements ``whale_core.roles.WeightContext``."""

    engine: RolloutEngine
    harness: Harness
    seed: int
    next_step: int
    sampler: PromptSampler
    rollouts: Rollouts
    _made: dict[int, list[Trajectory]] = field(factory=dict, init=False)  # by unfinished step

    def reasons(self, step: int) -> dict[str, int]:
        """Return why rollouts of ``step`` ended before a verdict, counted; forget earlier steps."""
        reasons = count_reasons(self._made.get(step, ()))
        self._made = {later: made for later, made in self._made.items() if later > step}
        return reasons

    def next_prompts(self, count: int) -> list[Example]:
        """Take the next prompts of D_weight."""
        return self.sampler.next(count)

    def best_harnesses(self, count: int) -> list[Harness]:
        """Return the phase's harness and the best others of the archive."""
        others = best_of(read_archive(self.rollouts.folder.path / "harnesses"))
        return [self.harness, *(other for other in others if other.id != self.harness.id)][:count]

    async def rollout(
        self,
        prompts: Sequence[Example],
        group_size: int,
        step: int,
        harnesses: Sequence[Harness] | None = None,
    ) -> list[Group]:
        """Roll out ``group_size`` draws of each prompt; rows are written down for replay, and which
        harness each prompt is rolled out under where it is not the phase's."""
        at = (self.rollouts.cycle, step)
        if harnesses is not None:
            names = [harness.name for harness in harnesses]
            self.rollouts.folder.commit(
                "harness_mixture", phase=self.rollouts.phase, step=step, harnesses=names
            )
        jobs = [
            job
            for prompt, harness in zip(
                prompts, harnesses or [self.harness] * len(prompts), strict=True
            )
            for job in self.rollouts.jobs(harness, [prompt], group_size, "train", at)
        ]
        trajectories = await self.rollouts.make(jobs)
        self._made.setdefault(step, []).extend(trajectories)
        groups = []
        for index, prompt in enumerate(prompts):
            start = index * group_size
            group = trajectories[start : start + group_size]
            rows = tuple(build_rows(t.calls, start + i) for i, t in enumerate(group))
            groups.append(Group(prompt, tuple(group), rows))
        path = self.rollouts.folder.path / "rows" / f"step-{step:06d}.npz"
        if not path.is_file():  # written before an interruption, from the same trajectories
            every = [row for group in groups for rows in group.rows for row in rows]
            write_rows(path, every, trajectories, mixed=harnesses is not None)
        return groups


@define
class SearchPhaseContext:
    """Implements ``whale_core.roles.SearchContext``."""

    domain: Domain
    harness: Harness
    weights_id: str
    cycle: int
    phase: int
    seed: int
    folder: Path
    sample: HarnessSample
    null_examples: Sequence[Example]
    draws: int
    jail_kind: str
    rollouts: Rollouts
    _traces: dict[str, list[Trajectory]] = field(factory=dict, init=False)  # by harness id
    _in_session: bool = field(default=False, init=False)
    _found: dict[tuple[str, str], Json] | None = field(default=None, init=False)  # in sessions

    @property
    def examples(self) -> Sequence[Example]:
        """The examples on which this phase scores."""
        return self.sample.examples

    @property
    def shown(self) -> Sequence[Example]:
        """Those of them on which proposers may see traces."""
        return self.sample.shown

    @property
    def unseen(self) -> Sequence[Example]:
        """The examples of D_harness on which no proposer of the run sees one."""
        return self.sample.unseen

    async def score(
        self,
        harnesses: Sequence[Harness],
        examples: Sequence[Example] | None = None,
        draws: int | None = None,
        purpose: str = "score",
        first_draw: int = 0,
    ) -> list[Score]:
        """Score all in one pool on the same examples and draw keys."""
        on = self.examples if examples is None else examples
        times = self.draws if draws is None else draws
        per = len(on) * times
        jobs = [
            job
            for harness in harnesses
            for job in self.rollouts.jobs(harness, on, times, purpose, first_draw=first_draw)
        ]
        made = await self.rollouts.make(jobs) if jobs else []
        by_harness = [made[i * per : (i + 1) * per] for i in range(len(harnesses))]
        for harness, trajectories in zip(harnesses, by_harness, strict=True):
            self._keep_traces(harness, trajectories)
        return [
            score_of(harness.id, self.weights_id, trajectories)
            for harness, trajectories in zip(harnesses, by_harness, strict=True)
        ]

    def _keep_traces(self, harness: Harness, made: Sequence[Trajectory]) -> None:
        """Keep what was made on shown examples, without the prompts' tokens: they are most of it,
        and nobody reads them."""
        shown = {example.id for example in self.shown}
        kept = [_as_text(t) for t in made if t.example_id in shown]
        self._traces.setdefault(harness.id, []).extend(kept)

    def traces(self, harness: Harness) -> list[Trajectory]:
        """Return the trajectories of this phase's scoring of ``harness`` on the shown examples."""
        place = {example.id: index for index, example in enumerate(self.shown)}
        made = self._traces.get(harness.id, [])
        return sorted(made, key=lambda t: (place[t.example_id], t.key.draw))

    async def propose(
        self,
        proposer: Proposer,
        iteration: int,
        workspace: Callable[[], AbstractContextManager[Workspace]],
    ) -> Proposal:
        """Have ``proposer`` fill a workspace: once in the life of the run, then from the record.

        Its cost is charged and committed with what it made; where the run is stopped before, what
        it has paid by then is charged. A proposer that fails costs its iteration, never the run:
        the proposal then says why in ``failure``.
        """

        async def work() -> Json:
            rollouts = self.rollouts
            rollouts.caps.check(rollouts.ledger, 0, "proposal", rollouts.folder.seconds)
            self._in_session = True
            try:
                with workspace() as opened:
                    try:
                        made = await ask(proposer, opened)
                    except STOPS:
                        new = cattrs.unstructure(
                            self._charge_session(paid(proposer, opened), asked)
                        )
                        rollouts.folder.append(STOPPED, [{**asked, "spent": new}])
                        rollouts.folder.note("session_stopped", **asked)
                        rollouts.executor.settle()
                        raise
            finally:
                self._in_session = False
            self._charge_session(made.spent, asked)
            return cattrs.unstructure(made)

        asked = {"phase": self.phase, "iteration": iteration}
        answer = await once(self.rollouts.folder, "proposal", work, **asked)
        self.rollouts.executor.settle()
        return cattrs.structure(answer, Proposal)

    def _charge_session(self, spent: Spent, asked: Mapping[str, int]) -> Spent:
        """Charge what a session paid that stopped tries of it were not charged with; return it."""
        for line in self.rollouts.folder.read(STOPPED):
            if asked.items() <= line.items():
                spent -= cattrs.structure(line["spent"], Spent)
        self.rollouts.charge(spent_charge("proposer", spent, "propose", self.phase, self.cycle))
        return spent

    async def load_check(self, harness: Harness) -> str | None:
        """Load the harness in a jail of its own; return the error in one line, or None."""

        async def work() -> Json:
            try:
                async with open_jail(harness.source, self.domain.limits, self.jail_kind):
                    return None
            except HarnessLoadError as error:
                return str(error)

        found = await self._answer("load_check", work, harness=harness.id)
        return None if found is None else str(found)

    async def smoke(self, harness: Harness) -> str | None:
        """Run a few real episodes, on shown examples first; return why one crashed, or None."""
        jobs = self.rollouts.jobs(harness, self.examples[:SMOKE_EXAMPLES], 1, "smoke")
        if not self._in_session:
            return self._crash(await self.rollouts.make(jobs))

        async def work() -> Json:
            return self._crash(await self.rollouts.try_out(jobs))

        found = await self._answer("smoke", work, harness=harness.id)
        return None if found is None else str(found)

    def _crash(self, made: Sequence[Trajectory]) -> str | None:
        """Return why the first of ``made`` that crashed did; of an example that is not shown, not
        what the harness says of it."""
        shown = {example.id for example in self.shown}
        for trajectory in made:
            reason = trajectory.reason
            if trajectory.outcome is Outcome.FAIL and reason is not None and is_crash(reason):
                return reason if trajectory.example_id in shown else without_message(reason)
        return None

    async def null_check(self, harness: Harness) -> list[NullResult]:
        """Run the domain's null models under the harness."""
        examples = self.null_examples

        async def work() -> Json:
            return await measure_nulls(harness, self.domain, examples, self.rollouts)

        asked: dict[str, Json] = {"harness": harness.id, "examples": len(examples)}
        found = await self._answer("null_check", work, **asked)
        if not self._in_session:
            self.rollouts.executor.settle()
        return cattrs.structure(found, list[NullResult])

    async def replay(self, harness: Harness, recorded: Trajectory) -> Replayed:
        """Execute the harness on the example and the replies of a trajectory of ``traces``."""
        (example,) = [each for each in self.examples if each.id == recorded.example_id]
        rollouts = self.rollouts
        rollouts.caps.check(rollouts.ledger, 0, "rehearsal", rollouts.folder.seconds)
        replayed = await replay_with(rollouts.executor, recorded, harness, example, goes_on=True)
        made = [replayed.trajectory]
        rollouts.charge(judge_charge(made, "rehearse", self.phase, self.cycle))
        rollouts.folder.note("session_check", asked="rehearse", harness=harness.id)
        rollouts.executor.settle()
        return replayed

    async def _answer(self, event: str, work: Callable[[], Awaitable[Json]], **asked: Json) -> Json:
        """Return what ``work`` finds out about a harness: once in the life of the run. What a
        proposer's session found is not worked out again."""
        key = (event, str(asked["harness"]))
        checks = self._checks()

        async def found() -> Json:
            return checks[key] if key in checks else await work()

        if not self._in_session:
            return await once(self.rollouts.folder, event, found, **asked)
        if key not in checks:
            checks[key] = await work()
            self._keep_check(*key, checks[key])
        return checks[key]

    def _checks(self) -> dict[tuple[str, str], Json]:
        """Return what this phase's sessions found out, by event and harness id; also sessions of
        before an interruption, whose proposers may remember the answer and not ask again."""
        if self._found is None:
            lines = self.rollouts.folder.read(CHECKS)
            self._found = {
                (line["check"], line["harness"]): line["found"]
                for line in lines
                if line["phase"] == self.phase
            }
        return self._found

    def _keep_check(self, check: str, harness: str, found: Json) -> None:
        """Commit a session's check with what it cost: a session may remember the answer through a
        kill, so the ledger must remember the cost."""
        folder = self.rollouts.folder
        line = {"phase": self.phase, "check": check, "harness": harness, "found": found}
        folder.append(CHECKS, [line])
        folder.note("session_check", asked=check, harness=harness)
        self.rollouts.executor.settle()


def _as_text(trajectory: Trajectory) -> Trajectory:
    nothing = np.empty(0, np.int32)
    calls = tuple(evolve(call, prompt_ids=nothing) for call in trajectory.calls)
    return evolve(trajectory, calls=calls)


async def ask(proposer: Proposer, workspace: Workspace) -> Proposal:
    """Return what the proposer makes of the workspace, or how it failed.

    A decision to stop the run, and trouble with disk or engine, are no failures of the proposer.
    """
    try:
        return await proposer.propose(workspace)
    except (*STOPS, RunFolderError):
        raise
    except Exception as error:
        if errno_of(error) in DISK_TROUBLE:
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return Proposal((), paid(proposer, workspace), reason)


def paid(proposer: Proposer, workspace: Workspace) -> Spent:
    """Return what the session on a workspace has paid, as far as its proposer knows."""
    return proposer.paid(workspace) if isinstance(proposer, Pays) else Spent()


async def null_results(
    harness: Harness, domain: Domain, examples: Sequence[Example], rollouts: Rollouts
) -> list[NullResult]:
    """Score each null model of ``domain`` under ``harness``: no policy, so a judge alone may cost.

    One is ``refused`` when it passes more often than its chance level allows (one-sided exact
    binomial test) and it is of the refusing kind: then the harness solves the task itself.

    Raises:
        TooMuchNotScored: half of a null model's episodes or more met infrastructure faults.
        CapReached: a null model is due and a cap of the run is used up.
    """

    async def work() -> Json:
        return await measure_nulls(harness, domain, examples, rollouts)

    asked = {"harness": harness.id, "examples": len(examples)}
    found = await once(rollouts.folder, "null_check", work, **asked)
    rollouts.executor.settle()
    return cattrs.structure(found, list[NullResult])


async def measure_nulls(
    harness: Harness, domain: Domain, examples: Sequence[Example], rollouts: Rollouts
) -> Json:
    """Do what ``null_results`` does without a record; return the results as JSON."""
    try:
        return await _measured_nulls(harness, domain, examples, rollouts)
    except (CapReached, TooMuchNotScored) as error:
        # What it cost so far stays in the ledger, so that it must not be told again.
        rollouts.folder.note("null_check_stopped", harness=harness.id, why=str(error))
        rollouts.executor.settle()
        raise


async def _measured_nulls(
    harness: Harness, domain: Domain, examples: Sequence[Example], rollouts: Rollouts
) -> Json:
    views = [domain.environment(example).view() for example in examples]
    results = []
    for null in domain.null_models:
        jobs = rollouts.jobs(harness, examples, 1, "null")
        rollouts.caps.check(rollouts.ledger, len(jobs), "null", rollouts.folder.seconds)
        made = await rollouts.executor.run(jobs, NullPolicy(null, rollouts.tokenizer))
        rollouts.charge(judge_charge(made, "null", rollouts.phase, rollouts.cycle))
        scored = [t for t in made if t.outcome is not Outcome.NOT_SCORED]
        if 2 * len(scored) < len(made):
            lost = next(t.reason for t in made if t.outcome is Outcome.NOT_SCORED)
            raise TooMuchNotScored(
                f"null model {null.name}: {len(made) - len(scored)} of {len(made)} episodes "
                f"could not be scored: {lost}"
            )
        passed = sum(t.outcome is Outcome.PASS for t in scored)
        chance = null.chance(views)
        refused = null.refuses and exceeds_chance(passed, len(scored), chance) < NULL_ERROR_RATE
        result = NullResult(null.name, passed / len(scored), chance, len(scored), refused)
        results.append(cattrs.unstructure(result))
    return results


async def once(
    folder: RunFolder, event: str, work: Callable[[], Awaitable[Json]], **asked: Json
) -> Json:
    """Do ``work`` once in the life of a run and return its JSON result.

    For what is paid for or is no function of the run's keys. The result is committed under what
    was ``asked``; a continued run reads it back instead of doing the work again.
    """
    recorded = folder.recorded(event, ANSWERS)
    if recorded is not None:
        folder.commit(event, **asked)
        return recorded[0]
    answer = await work()
    folder.append(ANSWERS, [answer])
    folder.commit(event, **asked)
    return answer


def write_rows(
    path: Path, rows: Sequence[Row], trajectories: Sequence[Trajectory], mixed: bool = False
) -> None:
    """Write a step's rows as one ``.npz``: concatenated arrays with row lengths, and the reward of
    the trajectory that each row belongs to (NaN where it was not scored); of a ``mixed`` step, also
    the id of its harness."""
    of_rows = [trajectories[row.trajectory] for row in rows]
    rewards = [np.nan if t.outcome == "not_scored" else t.reward for t in of_rows]
    arrays: dict[str, Any] = {
        "input_ids": _joined([row.input_ids for row in rows], np.int32),
        "loss_mask": _joined([row.loss_mask for row in rows], np.uint8),
        "logprobs": _joined([row.logprobs for row in rows], np.float32),
        "lengths": np.array([len(row.input_ids) for row in rows], np.int64),
        "trajectory": np.array([row.trajectory for row in rows], np.int64),
        "reward": np.array(rewards, np.float32),
    }
    if mixed:
        arrays["harness"] = np.array([t.harness_id for t in of_rows], np.str_)

    def write(part: Path) -> None:
        with part.open("wb") as file:
            np.savez_compressed(file, **arrays)

    write_atomically(path, write)


def _joined(arrays: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype)


def search_context(
    parts: Parts,
    core: CoreSettings,
    rollouts: Rollouts,
    harness: Harness,
    weights_id: str,
    searches: int,
) -> SearchPhaseContext:
    """Return the context of a search that begins with ``harness``, in the phase at which
    ``rollouts`` are, after ``searches`` others."""
    return SearchPhaseContext(
        domain=parts.domain,
        harness=harness,
        weights_id=weights_id,
        cycle=rollouts.cycle,
        phase=rollouts.phase,
        seed=core.seed,
        folder=rollouts.folder.path / "harnesses",
        sample=parts.harness_sample(searches),
        null_examples=parts.null_examples,
        draws=core.search.draws,
        jail_kind=parts.jail_kind,
        rollouts=rollouts,
    )

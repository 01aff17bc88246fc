"""Rollouts within a run: made by the one executor, block by block, written down and charged."""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from attrs import asdict, define, evolve

from whale_core.errors import TooMuchNotScored
from whale_core.keys import DrawKey, json_hash
from whale_core.plugins.manager import Observers
from whale_core.records import Example, Json, Outcome, Trajectory
from whale_core.roles import CandidateReport, Harness, Score, Tokenizer
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import RolloutExecutor, blocks
from whale_core.rollout.policy import Policy
from whale_core.rollout.reasons import count_reasons
from whale_core.run.caps import Caps
from whale_core.run.folder import LEDGER, RunFolder
from whale_core.run.ledger import Charge, Ledger, judge_charge, rollout_charge
from whale_core.run.stored import read_trajectory, trajectory_json


@define
class Rollouts:
    """Makes rollouts for one run. ``phase`` and ``cycle`` say where the run is."""

    executor: RolloutExecutor
    policy: Policy
    tokenizer: Tokenizer
    folder: RunFolder
    ledger: Ledger
    observers: Observers
    seed: int
    max_not_scored: float
    caps: Caps
    phase: int = 0
    cycle: int = 0

    def jobs(
        self,
        harness: Harness,
        examples: Sequence[Example],
        draws: int,
        purpose: str,
        at: tuple[int, int] | None = None,
        first_draw: int = 0,
    ) -> list[Job]:
        """Return the jobs of every draw of every example, the draws numbered from ``first_draw``.

        ``at`` is the cycle and step that the draw keys name; by default the present ones.
        """
        cycle, step = (self.cycle, self.phase) if at is None else at
        return [
            Job(e, harness, DrawKey(self.seed, purpose, cycle, step, e.id, draw))
            for e in examples
            for draw in range(first_draw, first_draw + draws)
        ]

    async def make(self, jobs: Sequence[Job]) -> list[Trajectory]:
        """Return one trajectory per job; each block of them is committed when it is complete.

        A block that was committed before an interruption is read back instead of made again.

        Raises:
            CapReached: a block is due and a cap of the run is used up or would be passed.
            TooMuchNotScored: more than the allowed share could not be scored. The block in which
                that came out is charged but not kept, so that a resumed run makes it again.
            Interrupted: the run was asked to stop.
        """
        purpose = jobs[0].key.purpose
        allowed = most_not_scored(len(jobs), self.max_not_scored)
        made: list[Trajectory] = []
        sampled = 0
        for block in blocks(jobs):
            done = self._recorded(block) or await self._made(block, made, allowed)
            made += done
            sampled += sum(trajectory.sampled_tokens for trajectory in done)
            if not self.folder.replaying:
                self.observers.on_rollouts(purpose, len(made), len(jobs), sampled)
        return made

    async def try_out(self, jobs: Sequence[Job]) -> list[Trajectory]:
        """Return one trajectory per job, charged but not kept: for what a run does not repeat when
        it is continued. The caller commits.

        Raises:
            CapReached: a cap of the run is used up or would be passed.
        """
        return await self._run(jobs)

    def charge(self, charge: Charge | None) -> None:
        """Add a charge to the ledger, if there is one; the caller commits it."""
        if charge is not None and not self.folder.replaying:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            line = self.ledger.charge(evolve(charge, peak_memory_mb=round(peak, 1)))
            self.folder.append(LEDGER, [line])

    def _recorded(self, block: Sequence[Job]) -> list[Trajectory] | None:
        lines = self.folder.recorded("rollouts", self._file())
        if lines is None:
            return None
        self._commit(block)
        return [read_trajectory(line) for line in lines]

    async def _made(
        self, block: Sequence[Job], before: Sequence[Trajectory], allowed: float
    ) -> list[Trajectory]:
        purpose = block[0].key.purpose
        made = await self._run(block)
        lost = [t for t in (*before, *made) if t.outcome is Outcome.NOT_SCORED]
        if len(lost) > allowed:
            reasons = sorted({trajectory.reason or "" for trajectory in lost})
            self.folder.note("too_much_not_scored", purpose=purpose, lost=len(lost), why=reasons)
            self.executor.settle()
            tried = len(before) + len(made)
            raise TooMuchNotScored(
                f"{len(lost)} of {tried} rollouts ({purpose}) could not be scored, more than "
                f"rollout.max_not_scored={self.max_not_scored} allows: "
                f"{'; '.join(reasons)[:300]}; mend that, then `whale resume {self.folder.path}`"
            )
        self.folder.append(self._file(), map(trajectory_json, made))
        self._commit(block)
        self.executor.settle()
        return made

    async def _run(self, block: Sequence[Job]) -> list[Trajectory]:
        """Make a block and charge it."""
        purpose = block[0].key.purpose
        self.caps.check(self.ledger, len(block), purpose, self.folder.seconds)
        started = time.monotonic()
        await self.policy.forget()
        made = await self.executor.run(block, self.policy)
        seconds = time.monotonic() - started
        self.charge(rollout_charge(made, purpose, self.phase, self.cycle, seconds))
        self.charge(judge_charge(made, purpose, self.phase, self.cycle))
        return made

    def _commit(self, block: Sequence[Job]) -> None:
        """Commit a block under a digest of what was asked for."""
        asked = json_hash([[job.harness.id, *asdict(job.key).values()] for job in block])
        self.folder.commit(
            "rollouts",
            phase=self.phase,
            purpose=block[0].key.purpose,
            rollouts=len(block),
            asked=asked,
        )

    def _file(self) -> str:
        return f"rollouts/phase-{self.phase:03d}.jsonl"


def most_not_scored(rollouts: int, share: float) -> float:
    """Return how many of so many rollouts may be not scored: one always, never all."""
    return min(rollouts - 1, max(1.0, share * rollouts))


def score_of(harness_id: str, weights_id: str, trajectories: Iterable[Trajectory]) -> Score:
    """Return the score of one harness: the mean over examples of the mean over scored draws."""
    rewards: dict[str, list[float]] = defaultdict(list)
    metrics: dict[str, list[float]] = defaultdict(list)
    scored, lost, calls, tokens = 0, 0, 0, 0
    trajectories = list(trajectories)
    for trajectory in trajectories:
        if trajectory.outcome is Outcome.NOT_SCORED:
            lost += 1
            continue
        scored += 1
        calls += len(trajectory.calls)
        tokens += trajectory.sampled_tokens
        rewards[trajectory.example_id].append(trajectory.reward)
        for name, value in trajectory.metrics.items():
            metrics[name].append(value)
    means = [float(np.mean(values)) for values in rewards.values()]
    return Score(
        harness_id=harness_id,
        weights_id=weights_id,
        mean=float(np.mean(means)) if means else 0.0,
        scored=scored,
        not_scored=lost,
        rewards={name: tuple(values) for name, values in rewards.items()},
        mean_calls=calls / scored if scored else 0.0,
        sampled_tokens=tokens,
        metrics={name: float(np.mean(values)) for name, values in metrics.items()},
        reasons=count_reasons(trajectories),
    )


def candidate_json(candidate: CandidateReport) -> dict[str, Json]:
    """Return what a search iteration's journal line says of one candidate."""
    score = candidate.score
    return {
        "harness": candidate.harness.name,
        "id": candidate.harness.id,
        "parent": candidate.parent,
        "axis": candidate.axis,
        "changes": candidate.changes,
        "mean": score.mean if score is not None and score.scored else None,
        "metrics": {} if score is None else dict(score.metrics),
        "reasons": {} if score is None else dict(score.reasons),
        "rejection": None if candidate.rejection is None else asdict(candidate.rejection),
        "position_leak": dict(candidate.position_leak),
    }

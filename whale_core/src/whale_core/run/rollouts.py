"""Rollouts within a run: made by the one executor, written down, charged and counted."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from attrs import asdict, define

from whale_core.errors import CapReached, TooMuchNotScored
from whale_core.keys import DrawKey
from whale_core.plugins.manager import Observers
from whale_core.records import Example, Json, Outcome, Trajectory
from whale_core.roles import CandidateReport, Harness, Score, Tokenizer
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.policy import Policy
from whale_core.run.folder import RunFolder
from whale_core.run.ledger import Ledger, rollout_charge


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
    cap: int
    phase: int = 0
    cycle: int = 0

    def jobs(
        self,
        harness: Harness,
        examples: Sequence[Example],
        draws: int,
        purpose: str,
        at: tuple[int, int] | None = None,
    ) -> list[Job]:
        """Return the jobs of every draw of every example.

        ``at`` is the cycle and step that the draw keys name; by default the present ones.
        """
        cycle, step = (self.cycle, self.phase) if at is None else at
        return [
            Job(e, harness, DrawKey(self.seed, purpose, cycle, step, e.id, draw))
            for e in examples
            for draw in range(draws)
        ]

    async def make(self, jobs: Sequence[Job], policy: Policy | None = None) -> list[Trajectory]:
        """Run ``jobs`` and write trajectories and their cost; the caller commits them.

        Raises ``CapReached`` before a batch that would pass the run's cap, and
        ``TooMuchNotScored`` when more than the allowed share could not be scored.
        """
        purpose = jobs[0].key.purpose
        if policy is None and self.cap and self.ledger.rollouts + len(jobs) > self.cap:
            raise CapReached(
                f"cap.rollouts={self.cap} would be passed by the next {len(jobs)} rollouts "
                f"({purpose}): resume with a larger one, `whale resume {self.folder.path} --cap N`"
            )
        started = time.monotonic()

        def tell(done: int, total: int, tokens: int) -> None:
            self.observers.on_rollouts(purpose, done, total, tokens)

        progress = tell if policy is None else None
        trajectories = await self.executor.run(jobs, policy or self.policy, progress)
        seconds = time.monotonic() - started
        charge = rollout_charge(trajectories, purpose, self.phase, self.cycle, seconds)
        if policy is None:  # null models cost nothing and are not rollouts of the policy
            self.folder.append("ledger.jsonl", [self.ledger.charge(charge)])
            name = f"rollouts/phase-{self.phase:03d}.jsonl"
            self.folder.append(name, map(trajectory_json, trajectories))
        lost = sum(t.outcome is Outcome.NOT_SCORED for t in trajectories)
        if lost > max(1.0, self.max_not_scored * len(trajectories)):
            reasons = sorted({t.reason or "" for t in trajectories if t.outcome == "not_scored"})
            raise TooMuchNotScored(
                f"{lost} of {len(trajectories)} rollouts ({purpose}) could not be scored, more "
                f"than rollout.max_not_scored={self.max_not_scored}: {'; '.join(reasons)[:300]}"
            )
        return trajectories


def score_of(harness_id: str, weights_id: str, trajectories: Iterable[Trajectory]) -> Score:
    """Return the score of one harness: the mean over examples of the mean over scored draws."""
    rewards: dict[str, list[float]] = defaultdict(list)
    metrics: dict[str, list[float]] = defaultdict(list)
    scored, lost, calls, tokens = 0, 0, 0, 0
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
    )


def trajectory_json(trajectory: Trajectory) -> dict[str, Json]:
    """Return a trajectory as plain JSON, readable without the framework."""
    return {
        "example": trajectory.example_id,
        "harness": trajectory.harness_id,
        "weights": trajectory.weights_id,
        "key": asdict(trajectory.key),
        "outcome": str(trajectory.outcome),
        "reward": trajectory.reward,
        "reason": trajectory.reason,
        "answer": trajectory.answer,
        "metrics": dict(trajectory.metrics),
        "calls": [
            {
                "messages": [asdict(m, filter=lambda _, v: v is not None) for m in call.messages],
                "text": call.text,
                "finish_reason": call.finish_reason,
                "prompt_tokens": len(call.prompt_ids),
                "sampled_ids": call.token_ids.tolist(),
                "logprobs": [round(float(value), 6) for value in call.logprobs],
            }
            for call in trajectory.calls
        ],
        "events": [
            {"tool": e.name, "arguments": dict(e.arguments), "after_call": e.after_call}
            for e in trajectory.events
        ],
        "record": dict(trajectory.record),
    }


def candidate_json(candidate: CandidateReport) -> dict[str, Json]:
    """Return what a search iteration's journal line says of one candidate."""
    score = candidate.score
    return {
        "harness": candidate.harness.name,
        "id": candidate.harness.id,
        "parent": candidate.parent,
        "axis": candidate.axis,
        "changes": candidate.changes,
        "mean": None if score is None else score.mean,
        "metrics": {} if score is None else dict(score.metrics),
        "rejection": None if candidate.rejection is None else asdict(candidate.rejection),
        "position_leak": dict(candidate.position_leak),
    }

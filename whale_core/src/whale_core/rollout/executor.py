"""The rollout executor: the one path for training, scoring, selection and test.

Jobs are worked off in fixed blocks whose membership depends on indices alone. A block advances in
rounds: every harness runs (in its own process) until it waits for the model, then all waiting
turns are answered together, in index order. So neither timing nor neighbours decide anything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from attrs import evolve

from whale_core.errors import EngineError
from whale_core.jail import HarnessLoadError, Jail, JailError, open_jail
from whale_core.records import NotScored, Outcome, Trajectory
from whale_core.roles import Domain, Verifier
from whale_core.rollout.episode import Episode, Job
from whale_core.rollout.policy import Policy

BLOCK = 256
ACCEPT_ABOVE = 0.5

Progress = Callable[[int, int, int], None]


class RolloutExecutor:
    """Runs jobs under one domain and verifier; the policy is given per call."""

    def __init__(self, domain: Domain, verifier: Verifier, jail_kind: str) -> None:
        self._domain = domain
        self._verifier = verifier
        self._jail_kind = jail_kind

    async def run(
        self, jobs: Sequence[Job], policy: Policy, progress: Progress | None = None
    ) -> list[Trajectory]:
        """Return one trajectory per job, in order.

        A rollout that an infrastructure fault ended is made again once, with the same draw key,
        and is *not scored* if that fails too. A harness that cannot be loaded fails everything.
        """
        weights_id = await policy.weights_id()
        done: list[Trajectory] = []
        sampled = 0
        for start in range(0, len(jobs), BLOCK):
            block = jobs[start : start + BLOCK]
            trajectories = await self._block(block, policy, weights_id)
            faulty = [i for i, t in enumerate(trajectories) if t.outcome is Outcome.NOT_SCORED]
            if faulty:
                again = await self._block([block[i] for i in faulty], policy, weights_id)
                for index, trajectory in zip(faulty, again, strict=True):
                    trajectories[index] = trajectory
            done.extend(trajectories)
            sampled += sum(trajectory.sampled_tokens for trajectory in trajectories)
            if progress is not None:
                progress(len(done), len(jobs), sampled)
        return done

    async def _block(
        self, jobs: Sequence[Job], policy: Policy, weights_id: str
    ) -> list[Trajectory]:
        started = time.monotonic()
        async with AsyncExitStack() as stack:
            jails: dict[str, Jail] = {}
            unloadable: dict[str, str] = {}
            broken: dict[str, str] = {}
            for harness in dict.fromkeys(job.harness for job in jobs):
                jail = open_jail(harness.source, self._domain.limits, self._jail_kind)
                try:
                    jails[harness.id] = await stack.enter_async_context(jail)
                except HarnessLoadError as error:
                    unloadable[harness.id] = str(error)
                except JailError as error:
                    broken[harness.id] = str(error)
            episodes = [Episode(job, self._domain) for job in jobs]
            for episode in episodes:
                harness_id = episode.job.harness.id
                if harness_id in jails:
                    await episode.open(jails[harness_id])
                elif harness_id in broken:
                    episode.fault(broken[harness_id])
                else:
                    episode.unloadable(unloadable[harness_id])
            await _play(episodes, policy)
        seconds = (time.monotonic() - started) / len(jobs)
        return list(await asyncio.gather(*(self._judge(e, weights_id, seconds) for e in episodes)))

    async def _judge(self, episode: Episode, weights_id: str, seconds: float) -> Trajectory:
        """Turn a finished episode into a trajectory with its outcome."""
        served = {call.weights_id for call in episode.calls} - {weights_id}
        if served:
            raise EngineError(
                f"the engine served weights {sorted(served)[0]} where {weights_id} were expected"
            )
        trajectory = Trajectory(
            example_id=episode.job.example.id,
            harness_id=episode.job.harness.id,
            weights_id=weights_id,
            key=episode.job.key,
            calls=tuple(episode.calls),
            events=tuple(episode.events),
            answer=episode.answer,
            record=episode.record,
            outcome=Outcome.NOT_SCORED if episode.infrastructure else Outcome.FAIL,
            reason=episode.reason,
            seconds=seconds,
        )
        if episode.reason is None:
            verdict = await self._verifier.verify(episode.job.example, trajectory)
            if isinstance(verdict, NotScored):
                return evolve(trajectory, outcome=Outcome.NOT_SCORED, reason=verdict.reason)
            passed = verdict.reward > ACCEPT_ABOVE
            trajectory = evolve(
                trajectory, verdict=verdict, outcome=Outcome.PASS if passed else Outcome.FAIL
            )
        if trajectory.outcome is Outcome.NOT_SCORED:
            return trajectory
        metrics = {metric.name: metric.of(trajectory) for metric in self._domain.metrics}
        return evolve(trajectory, metrics=metrics)


async def _play(episodes: Sequence[Episode], policy: Policy) -> None:
    """Advance all episodes in rounds until each has ended."""
    active = list(episodes)
    while active:
        turns = await asyncio.gather(*(episode.advance() for episode in active))
        waiting = [(e, turn) for e, turn in zip(active, turns, strict=True) if turn is not None]
        active = [episode for episode, _ in waiting]
        if not active:
            return
        try:
            replies = await policy.reply([turn for _, turn in waiting])
        except EngineError as error:
            for episode in active:
                episode.fault(f"engine: {error}")
        else:
            await asyncio.gather(*(e.accept(r) for e, r in zip(active, replies, strict=True)))

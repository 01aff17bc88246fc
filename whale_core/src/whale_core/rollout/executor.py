"""The rollout executor: the one path for training, scoring, selection and test.

Jobs are worked off in fixed blocks whose membership depends on indices alone. A block advances in
rounds: every harness runs (in its own process) until it waits for the model, then all waiting
turns are answered together, in index order. So neither timing nor neighbours decide anything.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack

from attrs import evolve

from whale_core.abilities import KnowsRun, Settles
from whale_core.errors import EngineError, PluginError
from whale_core.jail import HarnessLoadError, Jail, JailError, open_jail
from whale_core.records import Call, Example, NotScored, Outcome, Spent, Trajectory, Verdict
from whale_core.roles import Domain, Metric, Verifier
from whale_core.rollout.episode import Episode, Job, Watch
from whale_core.rollout.faults import reason_of
from whale_core.rollout.policy import Policy

BLOCK = 256
ACCEPT_ABOVE = 0.5


def blocks(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """Cut jobs into the blocks that are worked off, and committed, as a whole."""
    for start in range(0, len(jobs), BLOCK):
        yield jobs[start : start + BLOCK]


class RolloutExecutor:
    """Runs jobs under one domain and verifier; the policy is given per call.

    ``watch`` is told what happens in the episodes while it happens (all of them: give it one job).
    """

    def __init__(
        self,
        domain: Domain,
        verifier: Verifier,
        jail_kind: str,
        watch: Watch = lambda happened: None,
    ) -> None:
        self._domain = domain
        self._verifier = verifier
        self._jail_kind = jail_kind
        self._watch = watch

    async def run(self, jobs: Sequence[Job], policy: Policy) -> list[Trajectory]:
        """Return one trajectory per job, in order.

        A rollout that an infrastructure fault ended is made again once, with the same draw key,
        and is *not scored* if that fails too. A harness that cannot be loaded fails everything.

        Raises:
            EngineError: the engine serves other weights than it said at the beginning, or cannot
                say which.
            PluginError: a metric of the domain fails.
        """
        weights_id = await policy.weights_id()
        done: list[Trajectory] = []
        for block in blocks(jobs):
            trajectories = await self._block(block, policy, weights_id)
            faulty = [i for i, t in enumerate(trajectories) if t.outcome is Outcome.NOT_SCORED]
            if faulty:
                again = await self._block([block[i] for i in faulty], policy, weights_id)
                for index, trajectory in zip(faulty, again, strict=True):
                    first = trajectories[index]
                    trajectories[index] = evolve(
                        trajectory,
                        spent_else=first.spent + trajectory.spent_else,
                        judging=first.judging + trajectory.judging,
                        cpu_seconds=first.cpu_seconds + trajectory.cpu_seconds,
                    )
            done.extend(trajectories)
        return done

    def begin(self, run: str) -> None:
        """Let the verifier know, if it asks for that, which run its verdicts are for."""
        if isinstance(self._verifier, KnowsRun):
            self._verifier.begin(run)

    def settle(self) -> None:
        """Let the verifier know, if it asks for that, that what it spent is in the ledger."""
        if isinstance(self._verifier, Settles):
            self._verifier.settle()

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
            episodes = [Episode(job, self._domain, self._watch) for job in jobs]
            for episode in episodes:
                stack.push_async_callback(episode.close)
                harness_id = episode.job.harness.id
                if harness_id in jails:
                    await episode.open(jails[harness_id])
                elif harness_id in broken:
                    episode.fault(broken[harness_id])
                else:
                    episode.unloadable(unloadable[harness_id])
            await _play(episodes, policy, weights_id)
            cpu = await asyncio.gather(*(episode.cpu_seconds() for episode in episodes))
        seconds = (time.monotonic() - started) / len(jobs)
        made = await asyncio.gather(*(self._judge(episode, weights_id) for episode in episodes))
        return [
            evolve(trajectory, cpu_seconds=used, seconds=seconds)
            for trajectory, used in zip(made, cpu, strict=True)
        ]

    async def _judge(self, episode: Episode, weights_id: str) -> Trajectory:
        """Turn a finished episode into a trajectory with its outcome."""
        record = episode.take_record()
        trajectory = Trajectory(
            example_id=episode.job.example.id,
            harness_id=episode.job.harness.id,
            weights_id=weights_id,
            key=episode.job.key,
            calls=tuple(episode.calls),
            events=tuple(episode.events),
            answer=episode.answer,
            record=record,
            outcome=Outcome.NOT_SCORED if episode.infrastructure else Outcome.FAIL,
            reason=episode.reason,
            spent_else=episode.spent,
        )
        if episode.reason is None:
            verdict = await self._verdict(episode.job.example, trajectory)
            trajectory = evolve(trajectory, judging=verdict.spent)
            if isinstance(verdict, NotScored):
                return evolve(trajectory, outcome=Outcome.NOT_SCORED, reason=verdict.reason)
            passed = verdict.reward > ACCEPT_ABOVE
            trajectory = evolve(
                trajectory,
                verdict=evolve(verdict, spent=Spent()),
                outcome=Outcome.PASS if passed else Outcome.FAIL,
            )
        if trajectory.outcome is Outcome.NOT_SCORED:
            return trajectory
        metrics = {
            metric.name: self._measured(metric, trajectory) for metric in self._domain.metrics
        }
        return evolve(trajectory, metrics=metrics)

    async def _verdict(self, example: Example, trajectory: Trajectory) -> Verdict | NotScored:
        """Return a sound verdict; a verifier that fails has not scored anything."""
        try:
            verdict = await self._verifier.verify(example, trajectory)
            if isinstance(verdict, NotScored):
                return verdict
            reward = float(verdict.reward) if isinstance(verdict, Verdict) else math.nan
            if not 0.0 <= reward <= 1.0:
                return NotScored(f"verifier: {str(verdict)[:80]} has no reward in [0, 1]")
            parts = {str(name): float(value) for name, value in verdict.parts.items()}
            spent = Spent() + verdict.spent
        except Exception as error:
            return NotScored(reason_of("verifier", error))
        return Verdict(reward, parts, spent)

    def _measured(self, metric: Metric, trajectory: Trajectory) -> float:
        """Return the metric's value. A metric reads what is already there, so that trying again
        would not help, and a hole in it would be a wrong mean: it stops the run."""
        example, domain = trajectory.example_id, self._domain.name
        at = f"domain {domain}: the metric {metric.name} of example {example}"
        try:
            value = float(metric.of(trajectory))
        except Exception as error:
            raise PluginError(f"{reason_of(at, error)}: mend the domain's plugin") from error
        if not math.isfinite(value):
            raise PluginError(f"{at} is {value}: mend the domain's plugin")
        return value


async def _play(episodes: Sequence[Episode], policy: Policy, weights_id: str) -> None:
    """Advance all episodes in rounds until each has ended."""
    active = list(episodes)
    while active:
        turns = await asyncio.gather(*(episode.advance() for episode in active))
        waiting = [(e, turn) for e, turn in zip(active, turns, strict=True) if turn is not None]
        active = [episode for episode, _ in waiting]
        if not active:
            return
        replies = await policy.reply([turn for _, turn in waiting])
        for reply in replies:
            if isinstance(reply, Call) and reply.weights_id != weights_id:
                raise EngineError(
                    f"the engine served weights {reply.weights_id} where {weights_id} were expected"
                )
        await asyncio.gather(*(e.accept(r) for e, r in zip(active, replies, strict=True)))

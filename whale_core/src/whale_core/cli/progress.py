"""What the terminal view knows of a run: counted from events, independent of how it is drawn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import define, field

from whale_core.plugins.events import PhaseInfo

RATE_WINDOW_S = 60.0


@define
class Batch:
    """The batch of rollouts now running."""

    purpose: str
    done: int
    total: int
    sampled_tokens: int


@define
class Progress:
    """The state of a run as the events told it. ``clock`` returns seconds."""

    clock: Callable[[], float]
    started: float = 0.0
    name: str = ""
    phase: PhaseInfo | None = None
    position: int = 0  # steps or iterations of this phase that are done
    rewards: list[float] = field(factory=list)  # of every weight step
    best: float | None = None  # the archive's best, under the weights of its phase
    accepted: str = ""
    batch: Batch | None = None
    finished_rollouts: int = 0  # of batches that have ended
    finished_tokens: int = 0
    planned_rollouts: int | None = None
    done_before: int = 0  # rollouts of this run in earlier processes
    _samples: deque[tuple[float, int]] = field(factory=deque)

    @property
    def elapsed(self) -> float:
        """Seconds since the run started (or was continued)."""
        return self.clock() - self.started

    @property
    def rollouts(self) -> int:
        """Rollouts finished in this process."""
        return self.finished_rollouts + (self.batch.done if self.batch else 0)

    @property
    def sampled_tokens(self) -> int:
        """Tokens sampled in this process."""
        return self.finished_tokens + (self.batch.sampled_tokens if self.batch else 0)

    def advance(self, purpose: str, done: int, total: int, sampled_tokens: int) -> None:
        """Take one progress event of a batch; ``done == total`` ends the batch."""
        self.batch = Batch(purpose, done, total, sampled_tokens)
        now = self.clock()
        self._samples.append((now, self.sampled_tokens))
        while now - self._samples[0][0] > RATE_WINDOW_S:
            self._samples.popleft()
        if done >= total:
            self.finished_rollouts += total
            self.finished_tokens += sampled_tokens
            self.batch = None

    @property
    def tokens_per_second(self) -> float | None:
        """The rate of sampling over the last minute of progress events."""
        if len(self._samples) < 2:
            return None
        (first, first_tokens), (last, last_tokens) = self._samples[0], self._samples[-1]
        return (last_tokens - first_tokens) / (last - first) if last > first else None

    @property
    def time_left(self) -> float | None:
        """Seconds the rest of the planned rollouts will take at the run's pace; None if unknown."""
        if not self.planned_rollouts or not self.rollouts:
            return None
        left = self.planned_rollouts - self.done_before - self.rollouts
        return max(0.0, left * self.elapsed / self.rollouts)

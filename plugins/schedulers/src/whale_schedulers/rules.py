"""Stopping rules that schedulers of this package share."""

from __future__ import annotations

from collections import deque
from statistics import fmean

from attrs import Factory, define, field
from attrs.validators import ge, optional

ROUNDING = 1e-9  # means that differ by less are equal: far below what one rollout can change


@define
class FixedCount:
    """Ends a phase after ``count`` steps or iterations, whatever their signals are."""

    count: int = field(validator=ge(1))
    _seen: int = field(default=0, init=False, eq=False, repr=False)

    def observe(self, signal: float) -> bool:
        """Take one more signal; return True at the ``count``-th."""
        self._seen += 1
        return self._seen >= self.count

    def planned(self) -> int | None:
        """Return ``count``: the length is known beforehand."""
        return self.count


@define
class Plateau:
    """Ends a phase when its signal has stopped rising (the published patience).

    What is compared is the mean of the last ``window`` signals; while there are fewer, the mean of
    those (with ``full_windows``: nothing yet). It is a new best if it exceeds the best of this
    phase by more than ``min_gain``. The phase ends at the first signal that is at least the
    ``earliest``-th and at least ``patience`` after the new best; whatever happens, at the
    ``most``-th. After the ``latest``-th it can end at the ``most``-th alone.
    """

    earliest: int = field(validator=ge(1))
    patience: int = field(validator=ge(1))
    window: int = field(default=1, validator=ge(1))
    full_windows: bool = False
    min_gain: float = field(default=0.0, validator=ge(0.0))
    most: int | None = field(default=None, validator=optional(ge(1)))
    latest: int | None = None
    _recent: deque[float] = field(
        default=Factory(lambda self: deque(maxlen=self.window), takes_self=True),
        init=False,
        eq=False,
        repr=False,
    )
    _seen: int = field(default=0, init=False, eq=False, repr=False)
    _best: float = field(default=float("-inf"), init=False, eq=False, repr=False)
    _best_at: int | None = field(default=None, init=False, eq=False, repr=False)

    def observe(self, signal: float) -> bool:
        """Take one more signal; return True if the phase ends with it."""
        self._seen += 1
        self._recent.append(signal)
        if len(self._recent) == self.window or not self.full_windows:
            mean = fmean(self._recent)
            if mean > self._best + self.min_gain + ROUNDING:
                self._best, self._best_at = mean, self._seen
        if self._seen == self.most:
            return True
        if self.latest is not None and self._seen > self.latest:
            return False
        waited = 0 if self._best_at is None else self._seen - self._best_at
        return self._seen >= self.earliest and waited >= self.patience

    def planned(self) -> int | None:
        """Return ``most`` where the phase cannot end sooner, else None: the signals decide."""
        first_best = self.window if self.full_windows else 1
        soonest = max(self.earliest, first_best + self.patience)
        never = self.latest is not None and self.latest < soonest
        return self.most if self.most is not None and (never or self.most <= soonest) else None

"""What each run of a comparison may spend, and which conditions keep to it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from attrs import fields, frozen

from whale_core.config.settings import CapSettings
from whale_core.errors import InputError
from whale_core.records import Json

UNITS = tuple(each.name for each in fields(CapSettings))
TOLERANCE = 0.05  # of the budget: a condition this near to it is matched, and no run may pass it


@frozen
class Budget:
    """So much of one unit (``rollouts``, ``tokens``, ``usd``, ``seconds``) for every run."""

    unit: str
    amount: float

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read ``rollouts=1500``. Raises ``InputError`` for anything else."""
        unit, equals, number = text.partition("=")
        if not equals or unit not in UNITS:
            raise InputError(f"--budget {text}: give one of {', '.join(f'{u}=…' for u in UNITS)}")
        try:
            amount = float(number)
        except ValueError:
            amount = math.nan
        if not 0 < amount < math.inf:
            raise InputError(f"--budget {text}: {number!r} is no number above 0")
        return cls(unit, amount)

    @property
    def cap(self) -> str:
        """The setting that stops a run before it passes the budget by more than the tolerance."""
        most = self.amount * (1 + TOLERANCE)
        whole = self.unit in ("rollouts", "tokens")
        return f"cap.{self.unit}={math.floor(most + 1e-9) if whole else f'{most:g}'}"

    def away(self, amount: float) -> float:
        """Return how far an amount is from the budget, as a share of it (below it: negative)."""
        return amount / self.amount - 1

    def matched(self, amount: float) -> bool:
        """Return whether an amount is near enough."""
        return abs(self.away(amount)) <= TOLERANCE + 1e-9

    def of_condition(
        self, planned: Mapping[str, Json] | None, spent: Sequence[float]
    ) -> dict[str, Json]:
        """Return how a condition stands to the budget, as JSON.

        Args:
            planned: its rollouts as a plan states them (``least`` and ``most``); None: not known.
            spent: what each of its finished runs has spent of the unit.
        """
        expected = None if planned is None else planned["most"]
        if self.unit != "rollouts":
            expected = None  # only rollouts are known beforehand
        mean = sum(spent) / len(spent) if spent else None
        judged = expected if expected is not None else mean
        return {
            "unit": self.unit,
            "amount": self.amount,
            "planned": expected,
            "spent": mean,
            "matched": None if judged is None else self.matched(judged),
            "spent_matched": None if mean is None else self.matched(mean),
        }

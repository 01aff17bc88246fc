"""What was spent: one ledger line per committed block, and the totals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from attrs import asdict, frozen

from whale_core.records import Trajectory

COUNTS = (
    "rollouts",
    "not_scored",
    "calls",
    "prompt_tokens",
    "sampled_tokens",
    "trained_tokens",
    "proposer_tokens",
    "seconds",
    "usd",
)


@frozen
class Charge:
    """One amount spent by ``role`` (``policy``, ``trainer``, ``proposer``) for ``purpose``."""

    role: str
    purpose: str
    phase: int
    cycle: int
    rollouts: int = 0
    not_scored: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    sampled_tokens: int = 0
    trained_tokens: int = 0
    proposer_tokens: int = 0
    seconds: float = 0.0
    usd: float = 0.0


def rollout_charge(
    trajectories: Sequence[Trajectory], purpose: str, phase: int, cycle: int, seconds: float
) -> Charge:
    """Return the charge of a batch of rollouts: every one counts, scored or not."""
    return Charge(
        role="policy",
        purpose=purpose,
        phase=phase,
        cycle=cycle,
        rollouts=len(trajectories),
        not_scored=sum(t.outcome == "not_scored" for t in trajectories),
        calls=sum(len(t.calls) for t in trajectories),
        prompt_tokens=sum(t.prompt_tokens for t in trajectories),
        sampled_tokens=sum(t.sampled_tokens for t in trajectories),
        seconds=round(seconds, 3),
    )


class Ledger:
    """Sums charges; the lines themselves are in the run folder's ``ledger.jsonl``."""

    def __init__(self, lines: Iterable[Mapping[str, object]] = ()) -> None:
        self._by: dict[tuple[str, str], dict[str, float]] = defaultdict(
            lambda: dict.fromkeys(COUNTS, 0)
        )
        for line in lines:
            self._add(line)

    def charge(self, charge: Charge) -> dict[str, object]:
        """Add ``charge`` and return its ledger line."""
        line = asdict(charge)
        self._add(line)
        return line

    def totals(self) -> dict[str, object]:
        """Return the sums over everything and, under ``by``, per role and purpose."""
        by = {f"{role}/{purpose}": sums for (role, purpose), sums in sorted(self._by.items())}
        whole = {count: round(sum(sums[count] for sums in by.values()), 3) for count in COUNTS}
        return {
            **whole,
            "by": {name: {k: round(v, 3) for k, v in s.items() if v} for name, s in by.items()},
        }

    @property
    def rollouts(self) -> int:
        """All rollouts so far."""
        return int(sum(sums["rollouts"] for sums in self._by.values()))

    def _add(self, line: Mapping[str, object]) -> None:
        sums = self._by[str(line["role"]), str(line["purpose"])]
        for count in COUNTS:
            sums[count] += line[count]  # type: ignore[operator]

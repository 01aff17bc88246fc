"""What was spent: one ledger line per committed block, and the totals by role, phase and cycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import asdict, define, field, frozen

from whale_core.records import Json, Outcome, Spent, Trajectory
from whale_core.roles import WeightStep

COUNTS = (
    "rollouts",
    "not_scored",
    "calls",
    "malformed",
    "prompt_tokens",
    "cached_tokens",
    "sampled_tokens",
    "trained_tokens",
    "harness_cpu_seconds",
    "seconds",
    "usd",
)
PEAKS = ("peak_memory_mb",)
MEASURING = ("select", "test", "null", "probe")  # purposes that measure, and improve nothing
# Above this share of a judge's replies a result says that some held no verdict.
MALFORMED_SHARE = 0.03
DIGITS = {**dict.fromkeys(COUNTS, 3), "usd": 6}  # of the sums; one call may cost a millionth


@frozen
class Charge:
    """One amount spent by ``role`` for ``purpose``; roles are ``policy``, ``judge``, ``trainer``,
    ``proposer`` and ``tools``.

    ``malformed`` are the calls whose reply could not be used, a judge's without a verdict.
    ``cached_tokens`` are the part of ``prompt_tokens`` that the engine did not compute again.
    ``peak_memory_mb`` is the controller's largest resident memory until then, not a sum.
    """

    role: str
    purpose: str
    phase: int
    cycle: int
    rollouts: int = 0
    not_scored: int = 0
    calls: int = 0
    malformed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    sampled_tokens: int = 0
    trained_tokens: int = 0
    harness_cpu_seconds: float = 0.0
    seconds: float = 0.0
    usd: float = 0.0
    peak_memory_mb: float = 0.0


def rollout_charge(
    trajectories: Sequence[Trajectory], purpose: str, phase: int, cycle: int, seconds: float
) -> Charge:
    """Return the charge of a block of rollouts: every one counts, scored or not."""
    return Charge(
        role="policy",
        purpose=purpose,
        phase=phase,
        cycle=cycle,
        rollouts=len(trajectories),
        not_scored=sum(t.outcome is Outcome.NOT_SCORED for t in trajectories),
        calls=sum(t.spent.calls for t in trajectories),
        prompt_tokens=sum(t.spent.prompt_tokens for t in trajectories),
        cached_tokens=sum(t.spent.cached_tokens for t in trajectories),
        sampled_tokens=sum(t.spent.sampled_tokens for t in trajectories),
        harness_cpu_seconds=round(sum(t.cpu_seconds for t in trajectories), 3),
        seconds=round(seconds, 3),
        usd=round(sum(t.spent.usd for t in trajectories), 9),
    )


def judge_charge(
    trajectories: Sequence[Trajectory], purpose: str, phase: int, cycle: int
) -> Charge | None:
    """Return the charge of what the verifier spent on a block of rollouts; None if it was free."""
    spent = sum((t.judging for t in trajectories), Spent())
    return spent_charge("judge", spent, purpose, phase, cycle)


def trainer_charge(step: WeightStep, phase: int, cycle: int) -> Charge:
    """Return the charge of a weight step's training; its rollouts are charged for themselves."""
    return Charge(
        role="trainer",
        purpose="train",
        phase=phase,
        cycle=cycle,
        trained_tokens=step.trained_tokens,
        seconds=round(step.seconds - step.rollout_seconds, 3),
    )


def spent_charge(
    role: str, spent: Spent, purpose: str, phase: int = 0, cycle: int = 0
) -> Charge | None:
    """Return the charge of calls that were no rollouts; None if there were none."""
    if spent == Spent():
        return None
    return Charge(
        role=role,
        purpose=purpose,
        phase=phase,
        cycle=cycle,
        calls=spent.calls,
        malformed=spent.malformed,
        prompt_tokens=spent.prompt_tokens,
        cached_tokens=spent.cached_tokens,
        sampled_tokens=spent.sampled_tokens,
        usd=round(spent.usd, 9),
    )


@define
class Ledger:
    """Sums charges; the lines themselves are in the run folder's ``ledger.jsonl``."""

    _sums: dict[tuple[str, str, int, int], dict[str, float]] = field(factory=dict, init=False)

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, Json]]) -> Ledger:
        """Return the ledger of these lines."""
        ledger = cls()
        for line in lines:
            ledger._add(line)
        return ledger

    def charge(self, charge: Charge) -> dict[str, Json]:
        """Add ``charge`` and return its ledger line."""
        line = asdict(charge)
        self._add(line)
        return line

    def totals(self) -> dict[str, Json]:
        """Return the sums over everything, per role and purpose (``by``), and per phase."""
        by: dict[str, list[Mapping[str, float]]] = {}
        phases: dict[str, list[Mapping[str, float]]] = {}
        for (role, purpose, phase, cycle), sums in sorted(self._sums.items()):
            by.setdefault(f"{role}/{purpose}", []).append(sums)
            phases.setdefault(f"{phase}/cycle {cycle}/{role}", []).append(sums)
        return {
            **_summed(list(self._sums.values())),
            "by": {name: _nonzero(_summed(sums)) for name, sums in sorted(by.items())},
            "phases": {name: _nonzero(_summed(sums)) for name, sums in phases.items()},
        }

    def total(self, count: str) -> float:
        """Return the sum of one count over everything."""
        return sum(sums[count] for sums in self._sums.values())

    def judge_note(self) -> str:
        """Return a sentence if more than a few per cent of a judge's replies held no verdict."""
        judged = [sums for (role, *_), sums in self._sums.items() if role == "judge"]
        calls, malformed = (int(sum(each[n] for each in judged)) for n in ("calls", "malformed"))
        if malformed <= MALFORMED_SHARE * calls:
            return ""
        return (
            f"{malformed} of the judge's {calls} replies ({100 * malformed / calls:.1f} %) held no "
            "verdict: rollouts that got none are not scored, or by the fallback, and need not be "
            "like the others."
        )

    @property
    def rollouts(self) -> int:
        """All rollouts so far."""
        return int(self.total("rollouts"))

    def _add(self, line: Mapping[str, Json]) -> None:
        key = (str(line["role"]), str(line["purpose"]), int(line["phase"]), int(line["cycle"]))
        sums = self._sums.setdefault(key, dict.fromkeys((*COUNTS, *PEAKS), 0))
        for count in COUNTS:
            sums[count] += line.get(count, 0)  # older lines lack what came later
        for peak in PEAKS:
            sums[peak] = max(sums[peak], line[peak])


def _summed(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    whole = {count: round(sum(part[count] for part in parts), DIGITS[count]) for count in COUNTS}
    return {**whole, **{peak: max((part[peak] for part in parts), default=0) for peak in PEAKS}}


def _nonzero(sums: Mapping[str, float]) -> dict[str, float]:
    return {count: value for count, value in sums.items() if value}

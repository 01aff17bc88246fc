"""What a run spent, cut in several ways, and what it got for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from whale_core.evidence.report.facts import ReportedRun
from whale_core.records import Json
from whale_core.run.archive import SELECTION, ArchiveEntry

Line = Mapping[str, Json]
TOKENS = ("prompt_tokens", "sampled_tokens")
SUMMED = (
    "rollouts",
    "calls",
    "prompt_tokens",
    "cached_tokens",
    "sampled_tokens",
    "trained_tokens",
    "seconds",
    "usd",
)
FINAL = "test"  # the purpose of the final pass


@frozen
class Row:
    """What was spent on one thing; tokens are those of all models together."""

    name: str
    rollouts: float
    calls: float
    prompt_tokens: float
    cached_tokens: float
    sampled_tokens: float
    trained_tokens: float
    seconds: float
    usd: float

    @property
    def tokens(self) -> float:
        """Prompt and sampled tokens."""
        return self.prompt_tokens + self.sampled_tokens


def total(lines: Sequence[Line], name: str = "all") -> Row:
    """Return the sum of ledger lines; older lines lack what came later."""
    return Row(name, **{each: sum(float(line.get(each, 0)) for line in lines) for each in SUMMED})


def grouped(lines: Sequence[Line], key: Callable[[Line], str]) -> list[Row]:
    """Return the sums of ledger lines by ``key``, in the order in which the keys came up."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(key(line), []).append(line)
    return [total(each, name) for name, each in groups.items()]


def by_role(run: ReportedRun) -> list[Row]:
    """Return what each role spent for each purpose."""
    return sorted(grouped(run.ledger, lambda line: f"{line['role']}: {line['purpose']}"), key=_name)


def by_phase(run: ReportedRun) -> list[Row]:
    """Return what each phase spent; the final pass apart from the last phase."""
    kinds = {end.phase: end.kind for end in run.ends}

    def name(line: Line) -> str:
        if line["purpose"] == FINAL:
            return "final pass"
        phase = int(line["phase"])
        return f"phase {phase}: {kinds.get(phase, 'not ended')}"

    return grouped(run.ledger, name)


def by_cycle(run: ReportedRun) -> list[Row]:
    """Return what each cycle spent; the start is cycle 0."""

    def name(line: Line) -> str:
        return "final pass" if line["purpose"] == FINAL else f"cycle {line['cycle']}"

    return grouped(run.ledger, name)


@frozen
class CandidateCost:
    """What was spent on one harness of the archive: scoring it, and the proposal it came from.

    A proposal's cost is that of its whole session, told at the first of its candidates.
    """

    harness: str
    rollouts: int
    calls: float
    sampled_tokens: int
    proposal_tokens: int | None
    proposal_usd: float | None


def by_candidate(run: ReportedRun) -> list[CandidateCost]:
    """Return what each archived harness cost to score and to propose."""
    told: set[tuple[int, int]] = set()
    rows = []
    for entry in run.entries:
        place = (entry.phase, entry.iteration)
        proposal = run.proposals.get(place) if place not in told and entry.parent else None
        told |= {place} if proposal is not None else set()
        rows.append(_candidate(entry, proposal))
    return rows


def _candidate(entry: ArchiveEntry, proposal: Mapping[str, Json] | None) -> CandidateCost:
    scores = [record.score for record in entry.scores]
    given = proposal or {}
    return CandidateCost(
        harness=entry.id,
        rollouts=sum(score.scored + score.not_scored for score in scores),
        calls=sum(score.mean_calls * score.scored for score in scores),
        sampled_tokens=sum(score.sampled_tokens for score in scores),
        proposal_tokens=_number(given.get("tokens")),
        proposal_usd=given.get("usd"),
    )


def _number(value: Json) -> int | None:
    return None if value is None else int(value)


@frozen
class PaperCount:
    """Rollouts as the paper counts them: prompts × group size a weight step, examples × candidates
    a search iteration; of candidates, the most that an iteration of the journal has.

    The first iteration, which only scores the incoming harness, counts as much as any; selection,
    confirmation, smoke tests and the final pass are left out.
    """

    steps: int
    iterations: int
    weights: int
    harness: int

    @property
    def rollouts(self) -> int:
        """Both together."""
        return self.weights + self.harness


def paper_count(run: ReportedRun) -> PaperCount | None:
    """Return the count; None where the size of an iteration is not known."""
    steps = run.events("weight_step")
    iterations = run.events("search_iteration")
    candidates = max((len(entry["candidates"]) for entry in iterations), default=0)
    searched = candidates > 1 or any(entry["iteration"] > 1 for entry in iterations)
    each = max(
        (
            record.score.scored + record.score.not_scored
            for entry in run.entries
            for record in entry.scores
            if record.kind == SELECTION
        ),
        default=0,
    )
    if iterations and not (searched and each):  # only incoming harnesses were scored so far
        return None
    return PaperCount(
        steps=len(steps),
        iterations=len(iterations),
        weights=sum(int(step["rollouts"]) for step in steps),
        harness=len(iterations) * candidates * each,
    )


@frozen
class Yield:
    """Points (hundredths of reward on the sealed test) gained from (θ0, h0) to (θ, h), per unit
    spent on the whole run; None where nothing of that unit was spent."""

    points: float
    per_thousand_rollouts: float | None
    per_million_tokens: float | None
    per_hour: float | None
    per_usd: float | None


def yield_of(result: Mapping[str, Json], whole: Row) -> Yield | None:
    """Return what a finished run got for what it spent; None where nothing was compared."""
    gain = next(
        (d for d in result["differences"] if (d["a"], d["b"]) == ("theta_h", "theta0_h0")), None
    )
    if gain is None or gain["mean"] is None:
        return None
    points = 100 * float(gain["mean"])

    def per(amount: float) -> float | None:
        return points / amount if amount > 0 else None

    return Yield(
        points,
        per(whole.rollouts / 1_000),
        per(whole.tokens / 1_000_000),
        per(float(result["seconds"]) / 3_600),
        per(whole.usd),
    )


def _name(row: Row) -> str:
    return row.name

"""What the run spent: by role, phase, cycle and candidate, and what it got for it."""

from __future__ import annotations

from collections.abc import Sequence

from whale_core.evidence.report.blocks import Cell, folded, note, number, table
from whale_core.evidence.report.costs import (
    CandidateCost,
    Row,
    by_candidate,
    by_cycle,
    by_phase,
    by_role,
    paper_count,
    total,
    yield_of,
)
from whale_core.evidence.report.facts import ReportedRun
from whale_core.evidence.report.markup import Content, Markup, clipped, joined, tag
from whale_core.evidence.report.words import count, points, rate, usd

CANDIDATES = 400


def cost(run: ReportedRun) -> Markup:
    """Return the tables."""
    whole = total(run.ledger)
    return joined(
        _spent("By role and purpose", by_role(run), whole),
        note(
            "Prompt tokens count in every call they are part of; cached ones are the part that was "
            "not computed again. Seconds are those of the blocks of work: loading, jails and "
            "waiting between them are in the run's time only. USD are what endpoints charge; this "
            "machine's own time is not priced."
        ),
        _spent("By phase", by_phase(run), whole),
        _spent("By cycle", by_cycle(run), whole),
        _paper(run, whole),
        _yield(run, whole),
        _candidates(by_candidate(run)),
    )


def _spent(title: str, rows: Sequence[Row], whole: Row) -> Markup:
    heads = ("", "rollouts", "calls", "tokens in", "cached", "tokens out", "trained", "seconds",
             "USD")  # fmt: skip
    cells = [_row(row) for row in rows] + [_row(whole)]
    return joined(tag("h3", title), table(heads, cells, strong=(len(rows),)))


def _row(row: Row) -> tuple[Content | Cell, ...]:
    amounts = (row.rollouts, row.calls, row.prompt_tokens, row.cached_tokens, row.sampled_tokens,
               row.trained_tokens)  # fmt: skip
    return (
        clipped(row.name, 60),
        *(number(count(each) if each else "–", each) for each in amounts),
        number(f"{row.seconds:.1f}" if row.seconds else "–", row.seconds),
        number(usd(row.usd) if row.usd else "–", row.usd),
    )


def _paper(run: ReportedRun, whole: Row) -> Content:
    found = paper_count(run)
    if found is None:
        return None
    final = sum(float(each["rollouts"]) for each in run.ledger if each["purpose"] == "test")
    rows: list[tuple[Content | Cell, ...]] = [
        ("weight steps", number(count(found.steps)), number(count(found.weights))),
        ("search iterations", number(count(found.iterations)), number(count(found.harness))),
        ("together, as the paper counts", "", number(count(found.rollouts))),
        ("really made, final pass left out", "", number(count(whole.rollouts - final))),
    ]
    return joined(
        tag("h3", "In the paper's rollout convention"),
        table(("", Cell("number"), Cell("rollouts")), rows, strong=(2,)),
        note(
            "The paper counts prompts × group size for a weight step, and examples × candidates "
            "for every search iteration, the first too, which only scores the incoming harness. It "
            "counts neither selection, confirmation and smoke tests nor the proposer."
        ),
    )


def _yield(run: ReportedRun, whole: Row) -> Content:
    found = None if run.result is None else yield_of(run.result, whole)
    if found is None:
        return None

    def per(value: float | None) -> Cell:
        return number(rate(value))

    rows = [
        ("per 1\u202f000 rollouts", per(found.per_thousand_rollouts)),
        ("per million tokens", per(found.per_million_tokens)),
        ("per hour", per(found.per_hour)),
        ("per USD", per(found.per_usd)),
    ]
    nothing = " Nothing was charged in USD." if found.per_usd is None else ""
    return joined(
        tag("h3", f"What it got: {points(found.points / 100)} points on the sealed test"),
        table(("", "points gained"), rows),
        note(
            "Points from (θ0, h0) to (θ, h), divided by all that the run spent, proposer, judge "
            f"and final pass included.{nothing}"
        ),
    )


def _candidates(rows: Sequence[CandidateCost]) -> Content:
    if len(rows) < 2:
        return None
    cells = [
        (
            each.harness,
            number(count(each.rollouts), each.rollouts),
            number(count(each.calls), each.calls),
            number(count(each.sampled_tokens), each.sampled_tokens),
            number("–" if each.proposal_tokens is None else count(each.proposal_tokens)),
            number("–" if each.proposal_usd is None else usd(each.proposal_usd)),
        )
        for each in rows[:CANDIDATES]
    ]
    heads = ("harness", "rollouts", "calls", "tokens out", "proposal's tokens", "proposal's USD")
    return folded(
        "cost-candidates",
        "By candidate",
        table(heads, cells, sortable=True),
        note(
            "Rollouts for its scores in all phases. A proposer's session is charged to the first "
            "candidate it brought."
        ),
    )

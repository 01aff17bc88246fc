"""Training reward, the archive's best and the selection score over rollouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whale_core.evidence.report.blocks import folded, note, number, table
from whale_core.evidence.report.curves import (
    BEST,
    REWARD,
    SELECTION,
    Curves,
    Point,
    Ribbon,
    curves_of,
)
from whale_core.evidence.report.facts import ReportedRun
from whale_core.evidence.report.markup import Content, Markup, joined
from whale_core.evidence.report.svg import Level, Mark, Series, Span, legend, line_chart
from whale_core.evidence.report.words import count, interval, percent

COLOURS = {REWARD: "c-weights", BEST: "c-harness", SELECTION: "c-score"}
MEANING = {
    REWARD: "training reward of a weight step",
    BEST: "best fresh score in the archive, per search iteration",
    SELECTION: "selection score at a phase's end, with 95 % interval",
}


def curves(run: ReportedRun) -> Markup:
    """Return the chart with its table."""
    found = curves_of(run.run.entries)
    result = run.result
    chance: Mapping[str, float] = result.get("chance", {}) if result is not None else {}
    return joined(
        chart(found, chance, f"Curves of {run.name}"),
        note(
            "The x-axis counts all rollouts until then, those for scoring and selection too. The "
            "three measure different examples: compare each with itself. Training reward and the "
            "archive's best are what the phases steer by; the selection score decides which "
            "phase's pair is reported."
        ),
        _optimism(run),
        _table(found),
    )


def chart(found: Curves, chance: Mapping[str, float], title: str) -> Markup:
    """Return the three series over the ribbons of the phases, and a legend of what is there."""
    series = [
        Series(name, colour, _marks(points))
        for name, colour in COLOURS.items()
        if (points := found.series(name))
    ]
    keys = [("line", COLOURS[each.name], MEANING[each.name]) for each in series]
    kinds = {ribbon.kind for ribbon in found.ribbons}
    keys += [("area", kind, f"{kind} phase") for kind in ("weights", "harness") if kind in kinds]
    # A chance level is the test examples', so it stands here for scale only.
    levels = [Level(f"chance: {name}"[:40], value) for name, value in list(chance.items())[:2]]
    return joined(
        line_chart(series, title, "rollouts", [_span(each) for each in found.ribbons], levels),
        legend(keys),
    )


def _marks(points: Sequence[Point]) -> list[Mark]:
    """Return the marks; what phases steer by is not joined across another phase."""
    phases = [None, *(point.phase for point in points)]
    return [
        _mark(point, begins=point.series != SELECTION and point.phase != phase)
        for point, phase in zip(points, phases, strict=False)
    ]


def _mark(point: Point, begins: bool) -> Mark:
    words = f"{point.series}, phase {point.phase}: {percent(point.mean)}"
    if point.low is not None and point.high is not None:
        words += f" ({interval(point.low, point.high)})"
    return Mark(point.rollouts, point.mean, point.low, point.high, words, begins)


def _span(ribbon: Ribbon) -> Span:
    letter = {"weights": "θ", "harness": "h"}.get(ribbon.kind, "")
    title = f"phase {ribbon.phase}: {ribbon.kind or 'not ended'}, cycle {ribbon.cycle}"
    label = f"{letter}{ribbon.phase}" if letter else ""
    return Span(ribbon.start, ribbon.end, ribbon.kind or "none", label, title)


def _optimism(run: ReportedRun) -> Content:
    """Return how the selection score of the chosen pair compares with the test: the best of several
    is chosen for its luck too."""
    result = run.result
    if result is None:
        return None
    chosen = result["selection"][result["decided_at_phase"]]
    gap = chosen["mean"] - result["pairs"]["theta_h"]["mean"]
    return note(
        f"The pair of phase {result['decided_at_phase']} was the best of "
        f"{len(result['selection'])} on selection, with {percent(chosen['mean'])}; the sealed test "
        f"says {percent(result['pairs']['theta_h']['mean'])}. The best of several owes part of its "
        f"selection score to luck: here the two differ by {100 * gap:+.1f} points, examples "
        "differ too."
    )


def _table(found: Curves) -> Markup:
    rows = [
        (
            number(count(each.rollouts), each.rollouts),
            number(str(each.phase), each.phase),
            each.series,
            number(percent(each.mean), each.mean),
            number("" if each.low is None or each.high is None else interval(each.low, each.high)),
        )
        for each in sorted(found.points, key=lambda each: each.rollouts)
    ]
    heads = ("rollouts", "phase", "", "mean", "95 % interval")
    return folded("curve-points", f"The {len(rows)} points as a table", table(heads, rows))

"""A short section for each run of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from whale_core.evidence.report.blocks import Cell, folded, note, number, table
from whale_core.evidence.report.compared import Compared
from whale_core.evidence.report.markup import Content, Markup, clipped, joined, tag
from whale_core.evidence.report.sections.pair import square
from whale_core.evidence.report.svg import Mark, Series, Span, line_chart
from whale_core.evidence.report.words import (
    count,
    duration,
    interval,
    percent,
    point_interval,
    points,
    short,
    usd,
)
from whale_core.records import Json

METRICS = 6


def compared_runs(found: Compared) -> Markup:
    """Return all runs, each folded; ``whale report`` on a run's folder says more."""
    return joined(
        note("Each in short. For its harness, diffs and episodes: whale report with its folder."),
        [_run(found, run) for run in found.runs],
    )


def _run(found: Compared, run: Mapping[str, Json]) -> Markup:
    pairs = run.get("pairs") or {}
    words: Content = clipped(f"{run['state']} {run['reason']}".strip(), 200)
    if "theta_h" in pairs and "theta0_h0" in pairs:
        final, start = pairs["theta_h"], pairs["theta0_h0"]
        words = f"{percent(final['mean'])}, from {percent(start['mean'])}"
    summary = joined(tag("b", clipped(run["condition"], 60), f", seed {run['seed']}"), ": ", words)
    return folded(
        found.anchor(run),
        summary,
        note(clipped(run["run"], 200)),
        _gain(run),
        square(pairs) if len(pairs) == 4 else None,
        _chart(run),
        _phases(run),
        _cost(run),
    )


def _gain(run: Mapping[str, Json]) -> Content:
    for each in run.get("differences") or ():
        if (each["a"], each["b"]) == ("theta_h", "theta0_h0") and each["mean"] is not None:
            ends = point_interval(each["low"], each["high"])
            return tag(
                "p",
                f"(θ, h) − (θ0, h0): {points(each['mean'])} points, 95 % interval {ends}, on "
                f"{count(each['examples'])} test examples.",
            )
    return None


def _chart(run: Mapping[str, Json]) -> Content:
    steps = run.get("points") or ()
    if len(steps) < 2:
        return None
    marks = [
        Mark(
            p["rollouts"],
            p["mean"],
            p["low"],
            p["high"],
            f"phase {p['phase']}: {percent(p['mean'])}",
        )
        for p in steps
    ]
    spans = [
        Span(
            before["rollouts"],
            p["rollouts"],
            str(p["kind"]),
            "",
            f"phase {p['phase']}: {p['kind']}",
        )
        for before, p in pairwise(steps)
    ]
    series = [Series("selection score", "c-score", marks)]
    return line_chart(series, f"Selection score of {run['run']}", "rollouts", spans)


def _phases(run: Mapping[str, Json]) -> Content:
    steps = run.get("points") or ()
    if not steps:
        return None
    names = list(dict.fromkeys(n for p in steps for n in p["metrics"]))[:METRICS]
    rows: list[Sequence[Content | Cell]] = [
        (
            Cell(f"{p['phase']}: {p['kind']}"),
            number(str(p["length"])),
            number(" → ".join(percent(s) for s in _ends(p["signals"])) or "–"),
            number(percent(p["mean"])),
            number(interval(p["low"], p["high"])),
            *(
                number("–" if p["metrics"].get(n) is None else f"{p['metrics'][n]:.3g}")
                for n in names
            ),
            Cell(clipped(p["harness"], 40)),
        )
        for p in steps
    ]
    heads = [Cell(head) for head in ("phase", "length", "signal", "selection", "95 % interval")]
    heads += [Cell(clipped(name, 40)) for name in names]
    return table([*heads, Cell("harness")], rows)


def _ends(signals: Sequence[float]) -> Sequence[float]:
    return (signals[0], signals[-1]) if len(signals) > 1 else signals


def _cost(run: Mapping[str, Json]) -> Content:
    spent = run.get("spent") or {}
    if not spent:
        return None
    return note(
        f"Spent: {count(spent['rollouts'])} rollouts, {short(spent['tokens'])} tokens, "
        f"{usd(spent['usd'])} USD, {duration(run['seconds'])}."
    )

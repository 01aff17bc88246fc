"""The 2 × 2 of the reported pair on the sealed test, and its paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whale_core.evidence.report.blocks import Cell, note, number, table
from whale_core.evidence.report.facts import ReportedRun
from whale_core.evidence.report.markup import Content, Markup, clipped, joined, tag
from whale_core.evidence.report.svg import interval_bar
from whale_core.evidence.report.words import (
    CORNERS,
    NO_DIFFERENCE,
    count,
    interval,
    percent,
    point_interval,
    points,
    same_as,
    told_differences,
)
from whale_core.records import Json

Pairs = Mapping[str, Mapping[str, Json]]
MEANINGS = {
    ("theta_h", "theta0_h0"): "both together",
    ("theta_h", "theta0_h"): "the weights, under the final harness",
    ("theta_h", "theta_h0"): "the harness, with the final weights",
    ("theta0_h", "theta0_h0"): "the harness, with the initial weights",
    ("theta_h0", "theta0_h0"): "the weights, under the base harness",
}


def pair(run: ReportedRun) -> Markup:
    """Return the four corners with intervals, the differences, chance levels and null models."""
    result = run.result
    if result is None:
        return note("The sealed test is opened once, after the run has decided on its pair.")
    pairs: Pairs = result["pairs"]
    first = pairs["theta_h"]
    return joined(
        note(
            f"Mean reward on {count(first['examples'])} test examples × {first['draws']} draws, "
            "with 95 % intervals."
        ),
        square(pairs),
        _differences(result["differences"], pairs),
        scale(result.get("chance", {}), result.get("null_models", ())),
        _details(pairs, "sources", "By source"),
        _details(pairs, "parts", "Parts of the verdicts, means"),
    )


def square(pairs: Pairs) -> Markup:
    """Return the 2 × 2: weights by row, harness by column."""
    cells: list[Content] = [
        tag("div", class_="head corner"),
        tag("div", "base harness h0", class_="head"),
        tag("div", "final harness h", class_="head"),
    ]
    for theta, label in (("theta0", "initial weights θ0"), ("theta", "final weights θ")):
        cells.append(tag("div", label, class_="head row"))
        cells += [_corner(pairs, f"{theta}_{h}") for h in ("h0", "h")]
    return tag("div", *cells, class_="square")


def _corner(pairs: Pairs, name: str) -> Markup:
    score = pairs[name]
    final = " final" if name == "theta_h" else ""
    alike = same_as(pairs, name)
    return tag(
        "div",
        tag("strong", percent(score["mean"])),
        tag("span", interval(score["low"], score["high"])),
        interval_bar(score["mean"], score["low"], score["high"]),
        tag("span", f"the same pair as {CORNERS[alike][1]}") if alike else None,
        class_=f"cell{final}",
    )


def _differences(differences: Sequence[Mapping[str, Json]], pairs: Pairs) -> Content:
    shown = told_differences(differences, pairs)
    if not shown:
        return note(NO_DIFFERENCE)
    reach = max(0.05, *(abs(float(each[end])) for each in shown for end in ("low", "high")))
    rows = [
        (
            joined(
                MEANINGS.get((each["a"], each["b"]), ""),
                tag("div", f"{CORNERS[each['a']][1]} − {CORNERS[each['b']][1]}", class_="quiet"),
            ),
            number(points(each["mean"])),
            number(point_interval(each["low"], each["high"])),
            interval_bar(each["mean"], each["low"], each["high"], -reach, reach,
                         colour=_colour(each)),
        )
        for each in shown
    ]  # fmt: skip
    return joined(
        tag("h3", "Paired differences, in points"),
        table(("", "difference", "95 % interval", ""), rows),
    )


def _colour(difference: Mapping[str, Json]) -> str:
    if difference["low"] > 0:
        return "c-score"
    return "c-4" if difference["high"] < 0 else "c-7"


def scale(chance: Mapping[str, float], nulls: Sequence[Mapping[str, Json]]) -> Content:
    """Return what chance and models that know nothing score, so that the figures have a scale."""
    if not chance and not nulls:
        return None
    rows: list[tuple[Content, ...]] = [
        (clipped(name, 60), "chance level", tag("b", percent(value)))
        for name, value in chance.items()
    ]
    rows += [
        (
            clipped(str(each["name"]), 60),
            "null model under the final harness",
            percent(each["mean"]),
        )
        for each in nulls
    ]
    return joined(
        tag("h3", "For scale, on the same examples"),
        table(("", "", "mean reward"), rows),
        note(
            "A null model knows nothing: what it scores, the harness gives away. Random replies "
            "must not pass the chance level; positional ones (first or last listed) are shown as "
            "the position leak."
        )
        if nulls
        else None,
    )


def _details(pairs: Pairs, kind: str, title: str) -> Content:
    names = dict.fromkeys(name for each in pairs.values() for name in each.get(kind, {}))
    if not names:
        return None

    def value(score: Mapping[str, Json], name: str) -> str:
        found = score.get(kind, {}).get(name)
        if isinstance(found, Mapping):
            return percent(found["mean"])
        return "–" if found is None else f"{found:.3g}"

    rows: list[Sequence[Content | Cell]] = [
        (clipped(name, 60), *(number(value(pairs[corner], name)) for corner in CORNERS))
        for name in names
    ]
    return joined(tag("h3", title), table(("", *(label for _, label in CORNERS.values())), rows))

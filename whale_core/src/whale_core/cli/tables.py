"""The result of a run as tables: the 2 × 2 of its pair, differences, chance levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from whale_core.cli.text import percent, printable

PAIR_LABELS = {
    "theta0_h0": "(θ0, h0)",
    "theta0_h": "(θ0, h)",
    "theta_h0": "(θ, h0)",
    "theta_h": "(θ, h)",
}


CORNERS = tuple(PAIR_LABELS)  # in the order in which they are named as known


def print_result(console: Console, result: Mapping[str, Any]) -> None:
    """Print everything a user wants of ``result.json`` at the end of a run."""
    console.print()
    console.print(pair_table(result["pairs"]))
    sources = {name: _source_means(pair) for name, pair in result["pairs"].items()}
    if any(sources.values()):
        console.print(detail_table(sources, "by source, mean reward"))
    parts = {name: _part_means(pair) for name, pair in result["pairs"].items()}
    if any(parts.values()):
        console.print(detail_table(parts, "verdicts, mean of each part"))
    if differences := result.get("differences"):
        console.print(difference_table(differences, result["pairs"]))
    if chance := result.get("chance"):
        console.print(chance_table(chance))
    if nulls := result.get("null_models"):
        console.print(null_table(nulls))
    if sentence := result.get("sentence"):
        console.print(Text(printable(sentence, 2000)))


def pair_table(pairs: Mapping[str, Mapping[str, Any]]) -> Group:
    """Return the 2 × 2: initial and final weights by initial and final harness."""
    any_pair: Mapping[str, Any] = next(iter(pairs.values()), {})
    size = ""
    if "examples" in any_pair and "draws" in any_pair:
        split = any_pair.get("split", "test")
        size = f" on {split}, {any_pair['examples']} examples × {any_pair['draws']} draws"
    table = _table()
    table.add_column("")
    table.add_column("base harness h0", justify="right")
    table.add_column("final harness h", justify="right")
    table.add_row("initial weights θ0", _score(pairs, "theta0_h0"), _score(pairs, "theta0_h"))
    table.add_row("final weights θ", _score(pairs, "theta_h0"), _score(pairs, "theta_h"))
    return _titled(f"mean reward{size} (95 % interval)", table)


def detail_table(cells: Mapping[str, Mapping[str, str]], title: str) -> Group:
    """Return a column of cells for each pair, in the same rows."""
    table = _table()
    table.add_column("")
    for name in cells:
        table.add_column(_pair_label(name), justify="right")
    for row in dict.fromkeys(row for column in cells.values() for row in column):
        table.add_row(Text(row), *(column.get(row, "–") for column in cells.values()))
    return _titled(title, table)


def _source_means(pair: Mapping[str, Any]) -> dict[str, str]:
    return {
        f"{printable(name, 60)} ({each['examples']} examples)": percent(each["mean"])
        for name, each in pair.get("sources", {}).items()
    }


def _part_means(pair: Mapping[str, Any]) -> dict[str, str]:
    return {printable(name, 60): f"{mean:.3g}" for name, mean in pair.get("parts", {}).items()}


def difference_table(
    differences: Sequence[Mapping[str, Any]], pairs: Mapping[str, Mapping[str, Any]]
) -> Group:
    """Return the paired differences a - b, in percentage points; of one pair there is none."""
    table = _table()
    table.add_column("")
    table.add_column("difference", justify="right")
    table.add_column("interval", justify="right")
    for each in differences:
        if each["mean"] is None:
            continue  # no example was scored on both sides
        low, high = (f"{100 * each[end]:+.1f}" for end in ("low", "high"))
        label = f"{_pair_label(each['a'])} - {_pair_label(each['b'])}"
        if same := _same(pairs, each["a"], each["b"]):
            table.add_row(Text(label), same, "–")
        else:
            table.add_row(Text(label), f"{100 * each['mean']:+.1f}", f"{low} to {high}")
    return _titled("paired differences, percentage points (95 % interval)", table)


def chance_table(chance: Mapping[str, float]) -> Group:
    """Return the reference lines: what simple programs score on the same examples."""
    table = _table()
    table.add_column("")
    table.add_column("mean", justify="right")
    for name, value in chance.items():
        table.add_row(Text(printable(name, 60)), percent(value))
    return _titled("for scale, on the same examples", table)


def null_table(nulls: Sequence[Mapping[str, Any]]) -> Group:
    """Return what models that know nothing score under the final harness.

    The positional ones (first or last listed) say how much the harness's listing gives away.
    """
    table = _table()
    table.add_column("")
    table.add_column("mean", justify="right")
    table.add_column("chance", justify="right")
    for null in nulls:
        table.add_row(
            Text(printable(null["name"], 60)), percent(null["mean"]), percent(null["chance"])
        )
    return _titled("null models under the final harness (positional ones: position leak)", table)


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, padding=(0, 1))


def _titled(title: str, table: Table) -> Group:
    """Put a title above a table; rich's own would wrap at the table's width."""
    return Group(Text(title), table)


def _score(pairs: Mapping[str, Mapping[str, Any]], name: str) -> str:
    """Return a cell of the 2 × 2; of a pair that stands in an earlier cell, what they share."""
    pair = pairs.get(name)
    if pair is None:
        return "–"
    for earlier in CORNERS[: CORNERS.index(name)]:
        if same := _same(pairs, name, earlier):
            return f"{same} as {_pair_label(earlier)}"
    interval = f"{100 * pair['low']:.1f} to {100 * pair['high']:.1f}"
    return f"{percent(pair['mean'])} ({interval})"


def _same(pairs: Mapping[str, Mapping[str, Any]], a: str, b: str) -> str:
    """Say why two pairs are one: the search found nothing better ("same harness"), or no update
    was made or kept ("same weights"). Empty for two different pairs."""
    first, second = pairs.get(a, {}), pairs.get(b, {})
    if any(key not in each for key in ("harness_id", "weights_id") for each in (first, second)):
        return ""
    if any(first[key] != second[key] for key in ("harness_id", "weights_id")):
        return ""
    theta_a, h_a = a.split("_")
    theta_b, h_b = b.split("_")
    return " and ".join(
        words
        for words, differs in (("same weights", theta_a != theta_b), ("same harness", h_a != h_b))
        if differs
    )


def _pair_label(name: str) -> str:
    return PAIR_LABELS.get(name, printable(name, 40))

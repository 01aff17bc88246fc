"""The report of a comparison: as a page, as Markdown, JSON or CSV."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from whale_core.errors import InputError
from whale_core.evidence.report.compared import Compared
from whale_core.evidence.report.page import Section, page
from whale_core.evidence.report.sections.compared_more import (
    compared_behaviour,
    compared_cost,
    compared_curves,
    compared_settings,
)
from whale_core.evidence.report.sections.compared_result import (
    compared_head,
    conditions,
    differences,
    what_it_showed,
    what_was_compared,
)
from whale_core.evidence.report.sections.compared_runs import compared_runs
from whale_core.evidence.report.tables import csv_text, markdown_table, markdown_text
from whale_core.evidence.table import COLUMNS, notes, rows
from whale_core.records import Json

SECTIONS = (
    ("conditions", "Conditions", conditions),
    ("differences", "Differences", differences),
    ("curves", "Curves", compared_curves),
    ("cost", "Cost", compared_cost),
    ("behaviour", "Behaviour", compared_behaviour),
    ("runs", "Every run", compared_runs),
    ("settings", "How to repeat it", compared_settings),
)
CSV_HEADS = ("condition", "seed", "state", "pair", "examples", "draws", "mean", "low", "high",
             "rollouts", "tokens", "usd", "seconds", "settings_hash")  # fmt: skip


def comparison_text(path: Path, format_: str) -> str:
    """Return the report of the comparison in the file ``path`` as ``html``, ``md``, ``json`` or
    ``csv``.

    Raises:
        InputError: the file is not one that ``whale compare`` wrote.
    """
    found = Compared.read(path)
    makers = {"html": _page, "md": comparison_markdown, "json": _json, "csv": _csv}
    try:
        return makers[format_](found)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path} is not as whale compare writes it ({type(error).__name__}: {error})"
        ) from error


def _page(found: Compared) -> str:
    sections = [Section(anchor, name, make(found)) for anchor, name, make in SECTIONS]
    return page(f"{found.name}: a comparison", compared_head(found), sections)


def _json(found: Compared) -> str:
    return json.dumps(found.data, indent=1) + "\n"


def _csv(found: Compared) -> str:
    rows = [row for run in found.runs for row in _csv_rows(run)]
    return csv_text(CSV_HEADS, rows)


def _csv_rows(run: Mapping[str, Json]) -> list[Sequence[object]]:
    spent = run.get("spent") or {}
    cost = [spent.get(name) for name in ("rollouts", "tokens", "usd")]
    whole = [*cost, run["seconds"], run["settings_hash"]]
    about = [_cell(str(run["condition"])), run["seed"], run["state"]]
    pairs = run.get("pairs") or {}
    rows: list[Sequence[object]] = [
        (*about, name, s["examples"], s["draws"], s["mean"], s["low"], s["high"], *whole)
        for name, s in pairs.items()
    ]
    return rows or [(*about, None, None, None, None, None, None, *whole)]


def _cell(text: str) -> str:
    """Return a name that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


def comparison_markdown(found: Compared) -> str:
    """Return a comparison as Markdown: what was compared, the table, and the notes."""
    told = [f"- {markdown_text(each, 1_000)}" for each in notes(found.data)]
    lines = [[markdown_text(cell) for cell in row] for row in rows(found.data)]
    parts = [
        f"# Comparison on {markdown_text(str(found.data['domain']))}",
        markdown_text(what_was_compared(found), 1_000),
        markdown_text(what_it_showed(found), 1_000),
        markdown_table(COLUMNS, lines),
        "\n".join(told),
        f"Command: {markdown_text(str(found.data['command']), 2_000)}",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"

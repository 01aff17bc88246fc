"""The report of one run as JSON, Markdown or CSV: the same figures as in the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import cattrs
from attrs import asdict

from whale_core.cli.text import printable
from whale_core.evidence.report.costs import (
    Row,
    by_candidate,
    by_cycle,
    by_phase,
    by_role,
    paper_count,
    total,
    yield_of,
)
from whale_core.evidence.report.curves import curves_of
from whale_core.evidence.report.facts import ReportedRun
from whale_core.evidence.report.sections.lineage import accepted_line
from whale_core.evidence.report.sections.summary import what_it_found, what_it_was
from whale_core.evidence.report.tables import csv_text, markdown_table, markdown_text
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
    usd,
)
from whale_core.records import Json
from whale_core.run.archive import ArchiveEntry
from whale_core.run.comparison import compare

CSV_HEADS = ("series", "phase", "cycle", "rollouts", "examples", "draws", "mean", "low", "high")


def run_json(folder: Path) -> str:
    """Return everything but the episodes as JSON. Raises ``RunFolderError``."""
    run = ReportedRun.read(folder)
    result = run.result
    whole = total(run.ledger)
    paper = paper_count(run)
    gained = None if result is None else yield_of(result, whole)
    curves = curves_of(run.run.entries)
    data = {
        "run": run.name,
        "state": run.status.state,
        "summary": [say(run).replace("\u202f", " ") for say in (what_it_was, what_it_found)],
        "result": result,
        "curves": [asdict(point) for point in curves.points],
        "phases": [
            {**asdict(ribbon), "metrics": run.ends[ribbon.phase].selection.get("metrics", {})}
            for ribbon in curves.ribbons
            if ribbon.phase < len(run.ends)
        ],
        "harnesses": [_harness(run, entry) for entry in run.entries],
        "cost": {
            "total": asdict(whole),
            "by_role": [asdict(row) for row in by_role(run)],
            "by_phase": [asdict(row) for row in by_phase(run)],
            "by_cycle": [asdict(row) for row in by_cycle(run)],
            "by_candidate": [asdict(row) for row in by_candidate(run)],
            "paper": None if paper is None else {**asdict(paper), "rollouts": paper.rollouts},
            "gained": None if gained is None else asdict(gained),
        },
        "settings": run.settings,
        "manifest": run.manifest,
    }
    return json.dumps(data, indent=2) + "\n"


def _harness(run: ReportedRun, entry: ArchiveEntry) -> dict[str, Json]:
    parent = next((each for each in run.entries if each.id == entry.parent), None)
    found = None if parent is None else compare(parent, entry)
    effect = None
    if found is not None:
        effect = {
            "phase": found.phase,
            "examples": found.examples,
            "draws": found.draws,
            **asdict(found.difference),
            "gained": list(found.gained),
            "lost": list(found.lost),
        }
    return {
        "harness": entry.id,
        "id": entry.harness.id,
        "parent": entry.parent,
        "axis": entry.axis,
        "hypothesis": entry.hypothesis,
        "changes": entry.changes,
        "phase": entry.phase,
        "iteration": entry.iteration,
        "rejection": None if entry.rejection is None else cattrs.unstructure(entry.rejection),
        "in_force_after": list(run.accepted.get(entry.harness.id, ())),
        "effect": effect,
    }


def run_csv(folder: Path) -> str:
    """Return the points of the curves, then the corners and differences on the sealed test.

    Raises:
        RunFolderError: as ``run_page``.
    """
    run = ReportedRun.read(folder)
    found = curves_of(run.run.entries)
    rows: list[Sequence[object]] = [
        (p.series, p.phase, p.cycle, p.rollouts, None, None, p.mean, p.low, p.high)
        for p in found.points
    ]
    if run.result is not None:
        at = (run.result["decided_at_phase"], None, found.rollouts)
        rows += [
            (f"test {name}", *at, s["examples"], s["draws"], s["mean"], s["low"], s["high"])
            for name, s in run.result["pairs"].items()
        ]
        rows += [
            (f"test {d['a']} - {d['b']}", *at, d["examples"], None, d["mean"], d["low"], d["high"])
            for d in run.result["differences"]
        ]
    return csv_text(CSV_HEADS, rows)


def run_markdown(folder: Path) -> str:
    """Return the summary, the result, phases, accepted changes and cost as Markdown.

    Raises:
        RunFolderError: as ``run_page``.
    """
    run = ReportedRun.read(folder)
    parts = [
        f"# {markdown_text(run.name)} ({run.status.state})",
        markdown_text(what_it_was(run), 2_000),
        markdown_text(what_it_found(run), 2_000),
        *_result(run),
        "## Phases",
        _phases(run),
        *_changes(run),
        "## Cost",
        _cost([*by_role(run), total(run.ledger)]),
        _cost(by_phase(run)),
        "## How to repeat it",
        "Settings: `config.yaml` of the run folder, with hash "
        f"`{run.manifest['settings_hash']}`, seed {run.manifest['seed']}:",
        f"```sh\n{printable(run.again('config.yaml'), 400)}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _result(run: ReportedRun) -> list[str]:
    result = run.result
    if result is None:
        return []
    pairs = result["pairs"]
    corners = [
        (
            f"{CORNERS[n][1]} {CORNERS[n][0]}",
            percent(s["mean"]),
            interval(s["low"], s["high"]),
            f"the same pair as {CORNERS[alike][1]}" if (alike := same_as(pairs, n)) else "",
        )
        for n, s in pairs.items()
    ]
    differences = [
        (
            f"{CORNERS[d['a']][1]} − {CORNERS[d['b']][1]}",
            points(d["mean"]),
            point_interval(d["low"], d["high"]),
        )
        for d in told_differences(result["differences"], pairs)
    ]
    chance = [(markdown_text(name), percent(v)) for name, v in result.get("chance", {}).items()]
    size = f"{pairs['theta_h']['examples']} examples × {pairs['theta_h']['draws']} draws"
    return [
        "## The pair on the sealed test",
        size,
        markdown_table(("pair", "mean reward", "95 % interval", ""), corners),
        markdown_table(("difference", "points", "95 % interval"), differences)
        if differences
        else NO_DIFFERENCE,
        *([markdown_table(("for scale", "mean reward"), chance)] if chance else []),
    ]


def _phases(run: ReportedRun) -> str:
    rows = [
        (
            f"{end.phase}: {end.kind}",
            str(len(end.result["signals"]) if end.result else 0),
            percent(end.selection["mean"]),
            interval(end.selection["low"], end.selection["high"]),
            markdown_text(run.harness_label(end.harness_id)),
            run.label(end.weights_id),
        )
        for end in run.ends
    ]
    heads = ("phase", "length", "selection score", "95 % interval", "harness", "weights")
    return markdown_table(heads, rows)


def _changes(run: ReportedRun) -> list[str]:
    by_id = {entry.id: entry for entry in run.entries}
    rows = []
    for entry in accepted_line(run):
        if entry.parent not in by_id:
            continue
        found = compare(by_id[entry.parent], entry)
        difference = found.difference if found else None
        rows.append(
            (
                f"{entry.id} from {entry.parent}",
                markdown_text(entry.changes or entry.axis),
                points(difference.mean if difference else None),
                point_interval(difference.low, difference.high) if difference else "–",
            )
        )
    if not rows:
        return []
    table = markdown_table(("harness", "change", "points", "95 % interval"), rows)
    return ["## Accepted changes to the harness", table]


def _cost(rows: Sequence[Row]) -> str:
    cells = [
        (
            markdown_text(row.name),
            *(count(each) for each in (row.rollouts, row.calls, row.prompt_tokens)),
            *(count(each) for each in (row.cached_tokens, row.sampled_tokens)),
            f"{row.seconds:.1f}",
            usd(row.usd),
        )
        for row in rows
    ]
    heads = ("", "rollouts", "calls", "tokens in", "cached", "tokens out", "seconds", "USD")
    return markdown_table(heads, cells)

"""What lies behind a comparison's figures: the four pairs of each run, its updates, its edits.

    python benchmarks/comparison_runs.py keep runs/chess docs/results/chess/runs.json
    python benchmarks/comparison_runs.py table docs/results/chess/runs.json

``keep`` reads the finished run folders of a comparison, adds what it finds to the file, and leaves
what is there of runs whose folder is gone. ``table`` prints the file as Markdown.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from whale_core.cli.tables import PAIR_LABELS
from whale_core.run.folder import write_json

FIRST = "h0000"
OF_STEP = ("rollouts", "accepted", "updates", "loss")


def facts_of(run: Path) -> dict[str, Any]:
    """Return the facts of a finished run."""
    result = json.loads((run / "result.json").read_text())
    steps = [
        line
        for line in map(json.loads, (run / "journal.jsonl").read_text().splitlines())
        if line.get("event") == "weight_step"
    ]
    pairs = result["pairs"]
    last = _metadata(run, pairs["theta_h"]["harness"])
    return {
        "pairs": {name: pair["mean"] for name, pair in pairs.items()},
        "steps": [{key: step[key] for key in OF_STEP} for step in steps],
        "edits": _edits(run, last),
        "position_leak": last.get("position_leak"),
    }


def _edits(run: Path, harness: dict[str, Any]) -> list[str]:
    """Return what was changed, from the first harness to this one."""
    edits: list[str] = []
    while harness["id"] != FIRST:
        edits.insert(0, harness["changes"].partition(" with ")[2] or harness["changes"])
        harness = _metadata(run, harness["parent"])
    return edits


def _metadata(run: Path, name: str) -> dict[str, Any]:
    """Return a harness's metadata; the run's first one may go by the name it was given."""
    file = run / "harnesses" / name / "metadata.json"
    return json.loads(file.read_text()) if file.is_file() else {"id": FIRST}


def keep(comparison: Path, kept: Path) -> None:
    """Add the finished runs of a comparison's folder to the file ``kept``."""
    found = json.loads(kept.read_text()) if kept.is_file() else {}
    for result in comparison.glob("*/result.json"):
        found[result.parent.name] = facts_of(result.parent)
    write_json(kept, dict(sorted(found.items())))


def print_table(kept: Path) -> None:
    """Print a line for each run, shares in percent."""
    print(f"| run | {' | '.join(PAIR_LABELS.values())} | updates | accepted | leak | edits |")
    print("|---" * 9 + "|")
    for run, facts in json.loads(kept.read_text()).items():
        cells = [f"{100 * facts['pairs'][name]:.1f}" for name in PAIR_LABELS]
        leak = max((facts["position_leak"] or {"": 0.0}).values())
        steps = facts["steps"]
        updates = f"{sum(step['updates'] > 0 for step in steps)} of {len(steps)}"
        cells += [updates, str(sum(step["accepted"] for step in steps)), f"{100 * leak:.0f}"]
        print(f"| {run} | {' | '.join(cells)} | {'; '.join(facts['edits']) or '–'} |")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    keeping = commands.add_parser("keep", help="read run folders")
    keeping.add_argument("comparison", type=Path, help="folder of the comparison")
    keeping.add_argument("kept", type=Path, help="file of the facts")
    table = commands.add_parser("table", help="print them as Markdown")
    table.add_argument("kept", type=Path, help="file of the facts")
    options = parser.parse_args()
    if options.command == "keep":
        keep(options.comparison, options.kept)
    else:
        print_table(options.kept)


if __name__ == "__main__":
    main()

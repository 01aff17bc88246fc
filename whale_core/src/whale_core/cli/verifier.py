"""Judge a run's stored rollouts again by another verifier: how they agree, and whether they drift.

No model plays and nothing is paid: what the run stored is judged anew, by the domain's own verifier
or the one --against names. A gap between training reward and an independent verdict that grows over
the weight steps means that the policy learns to please its verifier. Where the domain ships
labelled episodes, the verifier is held to them as well. Rollouts on the test split stay sealed.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whale_core.evidence.agreement import Agreement, Report

EXAMPLES = """\
  whale verifier runs/default-20260101-120000
  whale verifier runs/judged --against em
  whale verifier runs/judged --against em --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``whale verifier``."""
    parser.add_argument("run", metavar="RUN", help="the run's folder")
    parser.add_argument(
        "--against", metavar="NAME", help="a verifier plugin (default: the domain's own)"
    )
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON")


def execute(options: argparse.Namespace) -> None:
    """Judge and print."""
    import json

    from whale_core.config import read_config
    from whale_core.evidence.agreement import compare_verifiers
    from whale_core.plugins.manager import load_plugins
    from whale_core.run.reader import StoredRun, find_run

    plugins = load_plugins()
    run = StoredRun.open(find_run(options.run))
    resolved = read_config(plugins, run.path / "config.yaml")
    report = compare_verifiers(run, resolved, plugins, options.against)
    if options.json:
        print(json.dumps(report.as_json(), indent=2, ensure_ascii=False))
        return
    for line in lines_of(report):
        print(line)


def lines_of(report: Report) -> list[str]:
    """Return the comparison as plain lines."""
    from whale_core.cli.text import percent

    ours, theirs = report.ours, report.theirs
    again = " (the run's own, again)" if ours == theirs else ""
    lines = [f"verifiers  {ours} (the run's) and {theirs}{again}"]
    for name, table in (("all", report.whole), *report.by_purpose.items()):
        lines.append(f"{name:<10} {_table(table)}")
    lines.append(f"left out   {report.left_out} rollouts without two verdicts")
    whole = report.whole
    if whole.only_ours or whole.only_theirs:
        p = whole.bias_p
        says = f", p = {p:.2g} for no preference" if p is not None else ""
        lines.append(
            f"they differ: {ours} alone passes {whole.only_ours}, {theirs} alone "
            f"{whole.only_theirs}{says}"
        )
    if report.drift is not None:
        first, last, growth = report.drift.first, report.drift.last, report.drift.growth
        word = "grows" if report.drift.drifts else "does not visibly grow"
        lines.append(
            f"drift      training reward less {theirs}: {100 * first.mean:+.1f} points at first, "
            f"{100 * last.mean:+.1f} at last, {100 * growth.mean:+.1f} more "
            f"({100 * growth.low:+.1f} to {100 * growth.high:+.1f}): the gap {word}"
        )
        for step, a, b in report.drift.by_step:
            lines.append(f"  step {step:<5} {ours} {percent(a)}, {theirs} {percent(b)}")
    for name, kinds in report.labelled.items():
        lines.append(f"labelled   {name} against the domain's labelled episodes:")
        for kind, (right, n) in kinds.items():
            lines.append(f"  {kind:<24} {right} of {n} as labelled")
    return lines


def _table(table: Agreement) -> str:
    from whale_core.cli.text import percent

    kappa = "–" if table.kappa is None else f"{table.kappa:.2f}"
    return (
        f"{table.rollouts} rollouts, {percent(table.agreement)} alike, kappa {kappa}: both pass "
        f"{table.both}, first alone {table.only_ours}, second alone {table.only_theirs}, neither "
        f"{table.neither}"
    )

"""Check that a configuration works on this machine, and say what to do where it does not.

Resolves the same configuration as a run, then tries out what it names: the installation, folders,
the jail, the model and its chat template, the engine's promises, and a few real rollouts. Exit code
0 when nothing failed, 2 otherwise.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whale_core.cli.configuration import add_configuration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from whale_core.doctor.finding import Finding

EXAMPLES = """\
  whale doctor
  whale doctor --plugin-set smoke
  whale doctor --plugin-set default --config mine.yaml engine.dtype=float32
  whale doctor --run-dir /data/runs --json
"""

MARKS = {"ok": "✓", "warn": "!", "fail": "✗", "skipped": "-"}
STYLES = {"ok": "green", "warn": "yellow", "fail": "red", "skipped": "dim"}
LONGEST = 700


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``whale doctor``."""
    parser.add_argument(
        "--plugin-set",
        default="default",
        metavar="NAME",
        help="see: whale plugins (default: default)",
    )
    add_configuration(parser)
    parser.add_argument(
        "--run-dir",
        type=Path,
        default=Path("runs"),
        metavar="DIR",
        help="where run folders will be kept (default: runs)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the findings as JSON; progress goes to stderr"
    )


def execute(options: argparse.Namespace) -> None:
    """Examine; raise ``InputError`` when a check failed."""
    import sys

    from rich.console import Console

    from whale_core.doctor.examination import examine
    from whale_core.doctor.finding import State
    from whale_core.doctor.subject import Subject
    from whale_core.errors import InputError
    from whale_core.plugins.manager import load_plugins

    console = Console(file=sys.stderr if options.json else sys.stdout, highlight=False)
    subject = Subject(
        plugins=load_plugins(),
        plugin_set=options.plugin_set,
        files=options.config,
        overrides=options.settings,
        run_dir=options.run_dir,
    )
    findings = examine(subject, lambda finding: _print_line(console, finding))
    _print_fixes(console, findings)
    if options.json:
        import json

        print(json.dumps(report(options.plugin_set, findings), indent=2, ensure_ascii=False))
    failed = [finding.name for finding in findings if finding.state is State.FAIL]
    if failed:
        raise InputError(f"{len(failed)} of {len(findings)} checks failed: {', '.join(failed)}")


def report(plugin_set: str, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return what ``--json`` prints: whether nothing failed, and every finding."""
    return {
        "plugin_set": plugin_set,
        "passed": all(finding.state != "fail" for finding in findings),
        "checks": [
            {
                "name": finding.name,
                "state": str(finding.state),
                "found": finding.found,
                "fix": finding.fix,
                "seconds": finding.seconds,
            }
            for finding in findings
        ],
    }


def _print_line(console: Any, finding: Finding) -> None:
    from rich.text import Text

    from whale_core.cli.text import printable

    state = str(finding.state)
    line = Text(MARKS[state], style=STYLES[state])
    line.append(f" {finding.name:<17} ", style="bold" if state == "fail" else "")
    line.append(printable(finding.found, LONGEST), style="")
    console.print(line, soft_wrap=True)


def _print_fixes(console: Any, findings: Sequence[Finding]) -> None:
    """Print the remedies, failures first."""
    from rich.text import Text

    from whale_core.cli.text import printable

    for state, title in (("fail", "to mend:"), ("warn", "could be better:")):
        fixes = [finding for finding in findings if finding.state == state]
        if fixes:
            console.print(Text(f"\n{title}"))
        for finding in fixes:
            fix = printable(finding.fix, LONGEST)
            console.print(Text(f"  {finding.name}: {fix}"), soft_wrap=True)

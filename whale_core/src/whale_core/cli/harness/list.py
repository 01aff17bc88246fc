"""List all harnesses of a run in the order in which they were tried.

A score is fresh when it was measured under the weights that the run has now, and stale otherwise.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whale_core.cli.harness.facts import Facts

EXAMPLES = """\
  whale harness list runs/default-20260101-120000
  whale harness list default-20260101-120000 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from whale_core.cli.harness.arguments import add_run

    add_run(parser)


def execute(options: argparse.Namespace) -> None:
    """Print the list."""
    from whale_core.cli.harness.console import open_console, print_json
    from whale_core.cli.harness.facts import Facts

    facts = Facts.of(options.run)
    if options.json:
        print_json([facts.entry_json(entry) for entry in facts.entries])
        return
    open_console().print(_table(facts))


def _table(facts: Facts) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from whale_core.cli.harness.facts import leak_text, marks
    from whale_core.cli.text import printable

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for name in ("harness", "from", "axis", "score", "accepted in", "position leak"):
        table.add_column(name, no_wrap=name in ("harness", "from"))
    table.add_column("hypothesis, or why it was rejected")
    for entry in facts.entries:
        rejection = entry.rejection
        note = entry.hypothesis if rejection is None else _rejected(rejection)
        cells = (
            entry.id,
            entry.parent or "–",
            entry.axis,
            facts.score_text(entry.scores[-1]) if entry.scores else "–",
            marks(facts, entry),
            leak_text(entry.position_leak),
            note,
        )
        style = "bold" if facts.accepted_in(entry) else "dim" if rejection else ""
        table.add_row(*(Text(printable(cell, 300), style=style) for cell in cells))
    return table


def _rejected(rejection: Any) -> str:
    return f"rejected ({rejection.gate}): {rejection.reason}"

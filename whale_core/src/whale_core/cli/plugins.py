"""List installed plugins and plugin sets, with where each comes from and what is broken."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whale_core.plugins.manager import Plugins
    from whale_core.plugins.registered import Origin

EXAMPLES = """\
  whale plugins
  whale plugins --json
"""

PIPED_WIDTH = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``whale plugins``."""
    parser.add_argument("--json", action="store_true", help="print the list as JSON")


def execute(options: argparse.Namespace) -> None:
    """Print the list."""
    from whale_core.plugins.manager import load_plugins

    rows = plugin_rows(load_plugins())
    if options.json:
        import json

        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    _print_table(rows)


def plugin_rows(plugins: Plugins) -> list[dict[str, str]]:
    """Return one row per plugin and plugin set: what works, then what does not.

    ``note`` is the summary of a plugin that works and the cause for one that does not. A plugin
    that failed to load has an empty role and name, since it could not say them.
    """
    from whale_core.plugins.manager import ROLES

    rows = [
        _row(role, each.name, each.origin, "ok", each.registration.summary)
        for role in ROLES
        for each in plugins.registrations(role).values()
    ]
    rows += [
        _row("plugin_set", name, origin, "ok", found.summary)
        for name, (found, origin) in plugins.sets().items()
    ]
    rows += [
        _row(role, name, origin, "broken", "another distribution registers this name too")
        for role, name, origin in plugins.conflicts()
    ]
    rows += [
        _row("", "", failure.origin, "broken", f"{failure.doing}: {failure.cause}")
        for failure in plugins.failures
    ]
    return rows


def _row(role: str, name: str, origin: Origin, state: str, note: str) -> dict[str, str]:
    return {
        "role": role,
        "name": name,
        "distribution": origin.distribution,
        "version": origin.version,
        "entry_point": origin.entry_point,
        "state": state,
        "note": note,
    }


def _print_table(rows: list[dict[str, str]]) -> None:
    """Print a heading per role and its plugins below; as wide as it gets when piped."""
    from itertools import groupby

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from whale_core.cli.text import printable

    table = Table.grid(padding=(0, 2))
    for column in ("name", "from", "state", "note"):
        table.add_column(column, no_wrap=column != "note")
    for role, group in groupby(rows, key=lambda row: row["role"]):
        table.add_row(Text(role.replace("_", " ") or "could not be loaded", style="bold"))
        for row in group:
            origin = f"{row['distribution']} {row['version']}"
            cells = (
                f"  {printable(row['name'])}",
                origin,
                row["state"],
                printable(row["note"], 400),
            )
            table.add_row(*map(Text, cells))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    console.print(table)

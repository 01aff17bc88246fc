"""Show which harness was made from which, as a tree.

With a harness: only what it comes from and what was made from it.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

    from whale_core.cli.harness.facts import Facts
    from whale_core.run.archive import ArchiveEntry

EXAMPLES = """\
  whale harness lineage runs/default-20260101-120000
  whale harness lineage RUN h0007
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from whale_core.cli.harness.arguments import add_run

    add_run(parser)
    parser.add_argument("harness", nargs="?", metavar="HARNESS", help="only its own line")


def execute(options: argparse.Namespace) -> None:
    """Print the tree."""
    from whale_core.cli.harness.console import open_console, print_json
    from whale_core.cli.harness.facts import Facts

    facts = Facts.of(options.run)
    entries: Sequence[ArchiveEntry] = facts.entries
    if options.harness:
        entries = _family(entries, facts.run.harness(options.harness).id)
    children = _children(entries)
    if options.json:
        print_json([_node_json(facts, root, children) for root in children[None]])
        return

    from rich.tree import Tree

    console = open_console()
    for root in children[None]:
        tree = Tree(_label(facts, root))
        _grow(tree, facts, root, children)
        console.print(tree)


def _children(entries: Sequence[ArchiveEntry]) -> dict[str | None, list[ArchiveEntry]]:
    """Return the children of each harness by its id, and under None those without a parent here.

    A parent is one that came before: so whatever an archive says, this is a forest.
    """
    children: dict[str | None, list[ArchiveEntry]] = {None: []}
    for entry in entries:
        parent = entry.parent if entry.parent in children else None
        children[parent].append(entry)
        children[entry.id] = []
    return children


def _family(entries: Sequence[ArchiveEntry], name: str) -> list[ArchiveEntry]:
    """Return the harness ``name``, its ancestors and its descendants, in order."""
    parents = {entry.id: entry.parent for entry in entries}
    kept = {name}
    above = parents[name]
    while above in parents and above not in kept:
        kept.add(above)
        above = parents[above]
    below = {name}
    for entry in entries:
        if entry.parent in below:
            below.add(entry.id)
    return [entry for entry in entries if entry.id in kept | below]


def _node_json(
    facts: Facts, entry: ArchiveEntry, children: dict[str | None, list[ArchiveEntry]]
) -> dict[str, Any]:
    made = [_node_json(facts, child, children) for child in children[entry.id]]
    return {**facts.entry_json(entry), "children": made}


def _grow(
    tree: Any, facts: Facts, entry: ArchiveEntry, children: dict[str | None, list[ArchiveEntry]]
) -> None:
    for child in children[entry.id]:
        _grow(tree.add(_label(facts, child)), facts, child, children)


def _label(facts: Facts, entry: ArchiveEntry) -> Text:
    from rich.text import Text

    from whale_core.cli.harness.facts import marks
    from whale_core.cli.text import printable

    words = [entry.id]
    if entry.rejection is not None:
        words.append(f"rejected ({entry.rejection.gate})")
    elif entry.scores:
        words.append(facts.score_text(entry.scores[-1]))
    if accepted := marks(facts, entry):
        words.append(f"accepted: {accepted}" if facts.accepted_in(entry) else accepted)
    if about := entry.axis or entry.changes:
        words.append(about)
    style = "bold" if facts.accepted_in(entry) else "dim" if entry.rejection is not None else ""
    return Text(printable("; ".join(words), 300), style=style)

"""Show one harness: where it comes from, what it scored in each phase, and its source."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whale_core.cli.harness.facts import Facts
    from whale_core.run.archive import ArchiveEntry

EXAMPLES = """\
  whale harness show runs/default-20260101-120000 h0003
  whale harness show RUN h0                              # the harness the run began with
  whale harness show RUN 1645b9e9 --json                 # by the start of its content id
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from whale_core.cli.harness.arguments import add_harness, add_run

    add_run(parser)
    add_harness(parser)


def execute(options: argparse.Namespace) -> None:
    """Print the harness."""
    from whale_core.cli.harness.console import open_console, print_json
    from whale_core.cli.harness.facts import Facts

    facts = Facts.of(options.run)
    entry = facts.run.harness(options.harness)
    if options.json:
        scores = [facts.score_json(record) for record in entry.scores]
        print_json({**facts.entry_json(entry), "scores": scores, "source": entry.source})
        return

    from rich.syntax import Syntax
    from rich.text import Text

    from whale_core.cli.text import block, printable

    console = open_console()
    for label, value in _metadata(facts, entry):
        console.print(Text(f"{label:<14}", style="dim") + Text(printable(value, 2000)))
    if entry.scores:
        console.print(_scores(facts, entry))
    source = block(entry.source)
    if console.is_terminal:
        console.print(Syntax(source, "python", theme="ansi_dark", line_numbers=True))
    else:
        console.print(Text(f"\n{source}"), soft_wrap=True)


def _metadata(facts: Facts, entry: ArchiveEntry) -> Iterator[tuple[str, str]]:
    from whale_core.cli.harness.facts import leak_text, marks

    yield "harness", f"{entry.id}, content id {entry.harness.id}"
    folder = facts.run.path / "harnesses" / entry.id
    file = folder / "harness.py" if folder.is_dir() else facts.run.path / "h0.py"
    yield "file", str(file)
    yield "made in", f"cycle {entry.cycle}, phase {entry.phase}, iteration {entry.iteration}"
    yield "parent", entry.parent or "none"
    for label, text in (
        ("axis", entry.axis),
        ("hypothesis", entry.hypothesis),
        ("changes", entry.changes),
        ("accepted in", marks(facts, entry)),
        ("position leak", leak_text(entry.position_leak)),
    ):
        if text:
            yield label, text
    if entry.rejection is not None:
        yield "rejected by", f"{entry.rejection.gate}: {entry.rejection.reason}"


def _scores(facts: Facts, entry: ArchiveEntry) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from whale_core.cli.harness.facts import reasons_text
    from whale_core.cli.text import count, percent, printable

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for name in ("phase", "iteration", "for", "weights", "", "mean reward", "rollouts"):
        table.add_column(name)
    for name in ("not scored", "calls each", "tokens", "metrics", "ended without a verdict"):
        table.add_column(name)
    for record in entry.scores:
        score = record.score
        metrics = (f"{printable(name, 40)} {value:.3g}" for name, value in score.metrics.items())
        cells = (
            str(record.phase),
            str(record.iteration),
            record.kind,
            facts.label(score.weights_id),
            "fresh" if facts.is_fresh(record) else "stale",
            percent(score.mean) if score.scored else "–",
            str(score.scored),
            str(score.not_scored),
            f"{score.mean_calls:.2f}",
            count(score.sampled_tokens),
            ", ".join(metrics),
            reasons_text(score.reasons),
        )
        table.add_row(*map(Text, cells))
    return table

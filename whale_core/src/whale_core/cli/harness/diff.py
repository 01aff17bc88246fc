"""Show what a change changed and what it did.

With one harness: against its parent. With two: from A to B. The effect is the difference of their
rewards in the last phase that scored both under the same weights, paired by example, with a 95 %
interval; and which examples only one of them solved.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from whale_core.cli.harness.facts import Facts
    from whale_core.run.archive import ArchiveEntry
    from whale_core.run.comparison import Comparison

EXAMPLES = """\
  whale harness diff runs/default-20260101-120000 h0003           # against its parent
  whale harness diff runs/default-20260101-120000 h0000 h0003
  whale harness diff RUN h0003 --json
"""

IDS_SHOWN = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from whale_core.cli.harness.arguments import add_harness, add_run

    add_run(parser)
    add_harness(parser, "first")
    parser.add_argument("second", nargs="?", metavar="B", help="compare with this one")


def execute(options: argparse.Namespace) -> None:
    """Print the difference and its effect."""
    from whale_core.cli.harness.console import open_console, print_json
    from whale_core.cli.harness.facts import Facts
    from whale_core.errors import InputError
    from whale_core.run.comparison import compare

    facts = Facts.of(options.run)
    first = facts.run.harness(options.first)
    if options.second:
        old, new = first, facts.run.harness(options.second)
    elif first.parent is None:
        raise InputError(
            f"{first.id} has no parent: name a second one (whale harness diff RUN A B)"
        )
    else:
        old, new = facts.run.harness(first.parent), first
    found = compare(old, new)
    if options.json:
        print_json(_as_json(facts, old, new, found))
        return
    console = open_console()
    _print_lines(console, old, new)
    _print_effect(console, facts, old, new, found)


def _unified(old: ArchiveEntry, new: ArchiveEntry) -> list[str]:
    """Return the unified diff of the sources; lines end at newlines alone, as Python's do not."""
    from difflib import unified_diff

    before, after = old.source.split("\n"), new.source.split("\n")
    return list(unified_diff(before, after, old.id, new.id, lineterm=""))


def _as_json(
    facts: Facts, old: ArchiveEntry, new: ArchiveEntry, found: Comparison | None
) -> dict[str, Any]:
    effect = None
    if found is not None:
        effect = {
            "phase": found.phase,
            "weights_id": found.weights_id,
            "weights": facts.label(found.weights_id),
            "examples": found.examples,
            "draws": found.draws,
            "old_mean": found.old.mean,
            "new_mean": found.new.mean,
            "difference": found.difference.mean,
            "low": found.difference.low,
            "high": found.difference.high,
            "gained": list(found.gained),
            "lost": list(found.lost),
            "metrics": {name: list(pair) for name, pair in found.metrics.items()},
            "mean_calls": [found.old.mean_calls, found.new.mean_calls],
            "sampled_tokens": [found.old.sampled_tokens, found.new.sampled_tokens],
        }
    return {
        "old": facts.entry_json(old),
        "new": facts.entry_json(new),
        "diff": _unified(old, new),
        "effect": effect,
    }


def _print_lines(console: Console, old: ArchiveEntry, new: ArchiveEntry) -> None:
    from rich.text import Text

    from whale_core.cli.text import block

    lines = _unified(old, new)
    if not lines:
        console.print(Text(f"{old.id} and {new.id} are the same file"))
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines:
        console.print(Text(block(line), style=styles.get(line[:1], "")), soft_wrap=True)


def _print_effect(
    console: Console, facts: Facts, old: ArchiveEntry, new: ArchiveEntry, found: Comparison | None
) -> None:
    from rich.text import Text

    from whale_core.cli.text import count, percent, printable

    def say(line: str) -> None:
        console.print(Text(line), soft_wrap=True)

    say("")
    for entry in (old, new):
        if entry.rejection is not None:
            reason = printable(f"{entry.rejection.gate}: {entry.rejection.reason}", 400)
            say(f"{entry.id} was rejected by {reason}")
    if found is None:
        say(f"no phase scored both {old.id} and {new.id} under the same weights")
        for entry in (old, new):
            if entry.scores:
                say(f"  {entry.id}: {facts.score_text(entry.scores[-1])}")
        return
    low, high = 100 * found.difference.low, 100 * found.difference.high
    say(
        f"{new.id} {percent(found.new.mean)}, {old.id} {percent(found.old.mean)}: difference "
        f"{100 * found.difference.mean:+.1f} points (95 % interval {low:+.1f} to {high:+.1f}), "
        f"{found.examples} examples × {found.draws}, phase {found.phase}, weights "
        f"{facts.label(found.weights_id)}"
    )
    for word, names in (("only the new one", found.gained), ("only the old one", found.lost)):
        shown = ", ".join(printable(name, 60) for name in names[:IDS_SHOWN])
        more = f", … ({len(names) - IDS_SHOWN} more: --json)" if len(names) > IDS_SHOWN else ""
        say(f"solved by {word}: {len(names)}{': ' if names else ''}{shown}{more}")
    for name, (before, after) in found.metrics.items():
        then, now = ("none" if v is None else f"{v:.3g}" for v in (before, after))
        say(f"{printable(name, 60)}: {now}, before {then}")
    if found.old.mean_calls != found.new.mean_calls:
        say(f"model calls each: {found.new.mean_calls:.2f}, before {found.old.mean_calls:.2f}")
    if found.old.sampled_tokens != found.new.sampled_tokens:
        now, then = count(found.new.sampled_tokens), count(found.old.sampled_tokens)
        say(f"sampled tokens: {now}, before {then}")

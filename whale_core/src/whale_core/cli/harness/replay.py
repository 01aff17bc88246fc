"""Show a stored episode turn by turn, and execute the harness again on its recorded replies.

What the harness sent, what the model wrote, what the environment answered, the verdict and what was
spent. Then the harness runs once more in the jail with the recorded replies in the model's place
(no model is needed) and is compared with what was recorded. HARNESS may also be a .py file, or one
without stored episodes: then it is run on the replies of its parent, of the accepted harness, or of
--of, and you see where it goes another way. Episodes on the test split stay sealed.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from whale_core.records import Json, Replayed, Trajectory
    from whale_core.roles import Harness
    from whale_core.run.archive import ArchiveEntry
    from whale_core.run.reader import StoredRun

EXAMPLES = """\
  whale harness replay runs/default-20260101-120000 h0003
  whale harness replay RUN h0003 harness-0017 --draw 1 --phase 2
  whale harness replay RUN h0003 --of h0000      # h0003 on the replies that h0000 got
  whale harness replay RUN mine.py harness-0017
"""

PURPOSES = ("train", "score", "confirm", "select", "smoke")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    from whale_core.cli.harness.arguments import add_run

    add_run(parser)
    parser.add_argument("harness", metavar="HARNESS", help="a harness of the run, or a .py file")
    parser.add_argument("example", nargs="?", metavar="EXAMPLE", help="an example's id")
    parser.add_argument("--draw", type=int, metavar="N", help="the N-th draw of it (from 0)")
    parser.add_argument("--phase", type=int, metavar="N", help="stored in this phase")
    parser.add_argument("--purpose", choices=PURPOSES, help="made for this")
    parser.add_argument("--of", metavar="HARNESS", help="use the replies this harness got")


def execute(options: argparse.Namespace) -> None:
    """Show the episode, then the comparison."""
    import asyncio
    import sys

    from whale_core.cli.harness.console import open_console, print_json
    from whale_core.cli.harness.transcript import Transcript
    from whale_core.run.reader import StoredRun, find_run
    from whale_core.run.stored import read_trajectory, trajectory_json

    run = StoredRun.open(find_run(options.run))
    harness, entry = _harness(run, options.harness)
    source, stored, others = _chosen(run, harness, entry, options)
    recorded = read_trajectory(stored)
    console = open_console(sys.stderr if options.json else None)
    _say(console, _heading(run, source, stored, others))
    transcript = Transcript(console)
    transcript.stored(recorded)
    transcript.end(recorded)
    replayed = asyncio.run(_replay(run, harness, recorded))
    _print_comparison(console, harness.name, source.id, recorded, replayed)
    if options.json:
        print_json(
            {
                "harness": harness.name,
                "replies_of": source.id,
                "phase": stored["phase"],
                "recorded": trajectory_json(recorded),
                "same": not replayed.differences,
                "differences": list(replayed.differences),
                "replayed": trajectory_json(replayed.trajectory),
            }
        )


def _harness(run: StoredRun, name: str) -> tuple[Harness, ArchiveEntry | None]:
    """Return the harness to execute, and its entry if it is one of the run's."""
    from whale_core.config.settings import HARNESS_FILE
    from whale_core.keys import content_hash
    from whale_core.roles import Harness
    from whale_core.run.parts import harness_file

    if name.endswith(HARNESS_FILE):
        text = harness_file(name)
        return Harness(content_hash(text), text, name), None
    entry = run.harness(name)
    return entry.harness, entry


def _chosen(
    run: StoredRun, harness: Harness, entry: ArchiveEntry | None, options: argparse.Namespace
) -> tuple[ArchiveEntry, dict[str, Json], int]:
    """Return whose stored episode is shown, the episode, and how many others would fit too.

    Raises:
        InputError: there is none.
    """
    from whale_core.errors import InputError

    seen: dict[str, None] = {}
    for source in _sources(run, harness, entry, options.of):
        fitting = [each for each in run.rollouts(source.harness.id) if _fits(each, options)]
        if fitting:
            fitting.sort(key=lambda each: each["key"]["purpose"] == "smoke")  # shown if asked for
            return source, fitting[0], len(fitting) - 1
        seen[source.id] = None
    asked = [f"example {options.example}"] if options.example else []
    for name in ("draw", "phase", "purpose"):
        value = getattr(options, name)
        if value is not None:
            asked.append(f"{name} {value}")
    of = f" with {', '.join(asked)}" if asked else ""
    names = sorted({each["example"] for name in seen for each in _of(run, name)})
    some = f"; it has {', '.join(names[:5])}{', …' if len(names) > 5 else ''}" if names else ""
    raise InputError(
        f"{run.path}: no stored episode of {' or '.join(seen) or harness.name}{of}{some} "
        "(those on the test split are sealed)"
    )


def _of(run: StoredRun, name: str) -> Iterator[dict[str, Json]]:
    return run.rollouts(run.harness(name).harness.id)


def _sources(
    run: StoredRun, harness: Harness, entry: ArchiveEntry | None, of: str | None
) -> Iterator[ArchiveEntry]:
    """Yield the harnesses whose replies may be used: ``of`` alone; or the harness itself, else its
    parent, else what was accepted last."""
    if of is not None:
        yield run.harness(of)
        return
    same = [each for each in run.harnesses() if each.harness.id == harness.id]
    yield from ([entry] if entry is not None else same[:1])
    if entry is not None and entry.parent is not None:
        yield run.harness(entry.parent)
    last = [end.harness_id for end in run.ends()][-1:]
    yield from [each for each in run.harnesses() if [each.harness.id] == last][:1]


def _fits(stored: dict[str, Json], options: argparse.Namespace) -> bool:
    return (
        options.example in (None, stored["example"])
        and options.draw in (None, stored["key"]["draw"])
        and options.phase in (None, stored["phase"])
        and options.purpose in (None, stored["key"]["purpose"])
    )


async def _replay(run: StoredRun, harness: Harness, recorded: Trajectory) -> Replayed:
    from whale_core.config import read_config
    from whale_core.errors import RunFolderError
    from whale_core.jail import probe
    from whale_core.plugins.manager import load_plugins
    from whale_core.run.replay import replay
    from whale_core.run.services import close_each
    from whale_core.run.task import build_task

    plugins = load_plugins()
    task = build_task(read_config(plugins, run.path / "config.yaml"), plugins)
    made = run.made_with()
    then = (made.domain_version, made.verifier_version)
    now = (task.domain.version, task.verifier.version)
    if then != now:
        raise RunFolderError(
            f"{run.path} was made with domain {then[0]} and verifier {then[1]}, installed are "
            f"{now[0]} and {now[1]}: a comparison would not be of the harness"
        )
    for split in ("weight", "harness", "selection"):
        for example in task.domain.split(split):
            if example.id == recorded.example_id:
                kind = probe(made.jail_kind)
                try:
                    return await replay(
                        recorded, harness, example, task.domain, task.verifier, kind
                    )
                finally:
                    await close_each(task.unsealed, task.verifier)
    raise RunFolderError(
        f"{run.path}: the domain has no example {recorded.example_id} now: its data has changed"
    )


def _heading(run: StoredRun, source: ArchiveEntry, stored: dict[str, Json], others: int) -> str:
    key = stored["key"]
    weights = run.weights_labels().get(stored["weights"], stored["weights"])
    more = f"; {others} more fit: EXAMPLE, --draw, --phase, --purpose choose" if others else ""
    return (
        f"{source.id} on example {stored['example']}, draw {key['draw']}, phase {stored['phase']}, "
        f"made for {key['purpose']}, weights {weights}{more}"
    )


def _print_comparison(
    console: Console, name: str, source: str, recorded: Trajectory, replayed: Replayed
) -> None:
    _say(console, "")
    who = name if name == source else f"{name} on the replies of {source}"
    if not replayed.differences:
        _say(console, f"executed again: {who} behaves the same, call for call, to the same verdict")
        return
    _say(console, f"executed again: {who} behaves differently:")
    for difference in replayed.differences:
        _say(console, f"  {difference}")
    if replayed.diverged is None:
        return
    _say(console, "  what the model would say to that is not recorded; try: whale harness try")
    number, messages = replayed.diverged
    if number < len(recorded.calls):
        before = _message_lines(recorded.calls[number].messages)
        _print_diff(console, before, _message_lines(messages))
    else:
        for line in _message_lines(messages):
            _say(console, f"  {line}")


def _message_lines(messages: Any) -> list[str]:
    from whale_core.cli.text import block

    return [
        line
        for message in messages
        for line in (f"{message.role}:", *block(message.content).split("\n"))
    ]


def _print_diff(console: Console, before: list[str], after: list[str]) -> None:
    from difflib import unified_diff

    from rich.text import Text

    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in unified_diff(before, after, "recorded", "now", lineterm=""):
        console.print(Text(f"  {line}", style=styles.get(line[:1], "")), soft_wrap=True)


def _say(console: Console, line: str) -> None:
    from rich.text import Text

    from whale_core.cli.text import printable

    indent = "  " if line.startswith("  ") else ""
    console.print(Text(indent + printable(line, 2000)), soft_wrap=True)

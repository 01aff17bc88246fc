"""Say what a run will take, phase by phase, before anything is spent.

Counts rollouts and proposals, and from a short calibration (a few real rollouts and weight steps on
the training split, in a temporary folder) estimates tokens, memory, disk and the time on this
machine. Where a set's model and GPUs are not here, memory and time are arithmetic, with what was
assumed. Takes the arguments of a run. A cap too small for one cycle is refused with exit code 2.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whale_core.cli.configuration import add_run_configuration, resolved_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from whale_core.run.footprint import Footprint
    from whale_core.run.preview import Preview
    from whale_core.span import Span

EXAMPLES = """\
  whale plan --plugin-set default
  whale plan --plugin-set default scheduler.total_epochs=1 cap.rollouts=20000
  whale plan --plugin-set default --no-calibration
  whale plan --plugin-set smoke --json
"""

GIB = 1 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``whale plan``."""
    add_run_configuration(parser)
    parser.add_argument(
        "--run-dir",
        type=Path,
        default=Path("runs"),
        metavar="DIR",
        help="where run folders will be kept (default: runs)",
    )
    parser.add_argument(
        "--no-calibration",
        action="store_true",
        help="count only: no rollouts, no estimate of tokens, time, disk and memory",
    )
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")


def execute(options: argparse.Namespace) -> None:
    """Plan and print."""
    import sys

    from whale_core.plugins.manager import load_plugins

    plugins = load_plugins()
    resolved = resolved_run(plugins, options)

    from whale_core.run.preview import preview

    calibrated = not options.no_calibration
    if calibrated and sys.stderr.isatty():
        print("calibrating (a few real rollouts; about a minute) …", file=sys.stderr)
    made = preview(resolved, plugins, options.run_dir, calibrated=calibrated)
    if options.json:
        import json

        print(json.dumps(made.as_json(), indent=2, ensure_ascii=False))
        return
    _print(made)


def _print(made: Preview) -> None:
    from rich.console import Console
    from rich.text import Text

    from whale_core.cli.text import printable

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    console.print(_table(made))
    for label, value in _totals(made):
        console.print(Text(f"{label:<16} {value}"), soft_wrap=True)
    for note in made.notes:
        console.print(Text(f"note: {printable(note, 300)}"), soft_wrap=True)


def _table(made: Preview) -> Any:
    from rich import box
    from rich.table import Table

    from whale_core.cli.view import LENGTH_UNITS

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("phase", no_wrap=True)
    for column in ("cycle", "length", "rollouts", "proposals", "time"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("of them")
    costs = made.estimate.phases if made.estimate is not None else {}
    for phase in made.plan.phases:
        unit = LENGTH_UNITS.get(phase.kind)
        parts = ", ".join(f"{name} {spanned(w.rollouts)}" for name, w in phase.work.items())
        cost = costs.get(phase.number)
        table.add_row(
            f"{phase.number} {phase.kind}",
            str(phase.cycle or ""),
            f"{spanned(phase.length)} {unit}s" if unit else "",
            spanned(phase.rollouts),
            spanned(phase.proposals) if phase.kind == "harness" else "",
            "" if cost is None else timed(cost.seconds),
            parts,
        )
    return table


def _totals(made: Preview) -> list[tuple[str, str]]:
    plan, costs, measured = made.plan, made.estimate, made.calibration
    counted = {name: span for name, span in plan.by_purpose().items() if span.most != 0}
    by = ", ".join(f"{name} {spanned(span)}" for name, span in counted.items())
    lines = [
        ("rollouts", f"{spanned(plan.rollouts)} ({by})"),
        ("one cycle", f"{plan.cycle_rollouts()} rollouts"),
        ("proposals", spanned(plan.proposals)),
        ("null episodes", f"{spanned(plan.null_episodes)} (without the model)"),
    ]
    if (found := made.footprint) is not None:
        return [*lines, *_footprint(found)]
    if costs is None or measured is None:
        return [*lines, ("estimate", "left out: no calibration")]
    run = costs.run
    return [
        *lines,
        ("tokens", f"prompt {about(run.prompt_tokens)}, sampled {about(run.sampled_tokens)}"),
        ("trained tokens", f"{about(run.trained_tokens)} (as many as are accepted)"),
        ("time", f"{timed(run.seconds)} (training {timed(run.training_seconds)} of it)"),
        ("disk", f"{sized(costs.kept_bytes)} kept, {sized(costs.fullest_bytes)} at its fullest"),
        ("memory", f"at least {costs.memory_mb / 1024:.1f} GiB"),
        (
            "calibration",
            f"{measured.rollouts} rollouts of the weight split in {measured.seconds:.0f} s",
        ),
    ]


def _footprint(found: Footprint) -> list[tuple[str, str]]:
    def listed(parts: Mapping[str, float]) -> str:
        each = ", ".join(f"{name} {gib:.1f}" for name, gib in parts.items())
        return f"{sum(parts.values()):.1f} GiB a GPU ({each})"

    from whale_core.span import Span

    hours = found.generation_hours + found.training_hours
    lines = [("serving", f"{listed(found.serving)}, {found.sequences} sequences a replica")]
    if found.training:
        lines.append(("training", f"{listed(found.training)}, activations to be added"))
    tokens = about(Span.exactly(found.sampled_tokens))
    return [
        ("tokens", f"sampled at most {tokens}"),
        *lines,
        ("time", f"at most about {hours:.0f} hours (training {found.training_hours:.0f} of it)"),
    ]


def spanned(span: Span) -> str:
    """Return a span of counts in words: ``12``, ``4–12``, ``at least 4``, ``unknown``."""
    return _words(span, _grouped)


def about(span: Span) -> str:
    """Return a span of estimated counts, to two digits."""
    return _words(span, lambda number: _grouped(int(float(f"{number:.1e}"))))


def timed(span: Span) -> str:
    """Return a span of seconds as ``m:ss``."""
    from whale_core.cli.text import duration

    return _words(span, duration)


def sized(span: Span) -> str:
    """Return a span of bytes in GiB."""
    return _words(span, lambda size: f"{size / GIB:.2f}") + " GiB"


def _words(span: Span, written: Any) -> str:
    if span.most is None:
        return f"at least {written(span.least)}" if span.least else "unknown"
    least, most = written(span.least), written(span.most)
    return most if least == most else f"{least}–{most}"


def _grouped(number: int) -> str:
    from whale_core.cli.text import count

    return count(number)

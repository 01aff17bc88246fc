"""Say which gain a paired comparison can see with 80 % power, and what it costs.

Both sides are scored on the same examples, at a base rate that one of them has; the gain is seen
when the 95 % interval of the difference lies above 0. The sizes are given, or those of a plugin
set (calibrated as by ``whale plan``), or those of a finished run with its own figures.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whale_core.evidence.power import Power

EXAMPLES = """\
  whale power --examples 256 --draws 1 --base 0.2
  whale power --examples 60 --draws 8 --base 0.25 --correlation 0.5
  whale power --plugin-set default
  whale power --plugin-set default test.examples=700 --base 0.2 --no-calibration
  whale power runs/default-20260101-120000 --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``whale power``."""
    parser.add_argument(
        "arguments",
        nargs="*",
        metavar="RUN",
        help="the folder of a finished run; with --plugin-set: settings, key.sub=value",
    )
    parser.add_argument("--examples", type=int, metavar="N", help="examples that both sides share")
    parser.add_argument("--draws", type=int, metavar="K", help="draws of each (default: 1)")
    parser.add_argument("--base", type=float, metavar="RATE", help="pass rate of one side, 0 to 1")
    parser.add_argument(
        "--correlation",
        type=float,
        metavar="R",
        help="correlation of two draws on one example, 0 to 1 (default: 0; a run's own)",
    )
    parser.add_argument("--plugin-set", metavar="NAME", help="take the sizes of this plugin set")
    parser.add_argument("--config", action="append", default=[], type=Path, metavar="FILE")
    parser.add_argument(
        "--no-calibration", action="store_true", help="no rollouts, so no tokens and no time"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")


def execute(options: argparse.Namespace) -> None:
    """Compute and print."""
    found = _found(options)
    if options.json:
        import json

        print(json.dumps([each.as_json() for each in found], indent=2, ensure_ascii=False))
        return
    for each in found:
        print("\n".join(lines_of(each)))


def _found(options: argparse.Namespace) -> list[Power]:
    from whale_core.errors import InputError
    from whale_core.evidence.power import ASSUMED, power, power_of_run

    if options.plugin_set is not None:
        if options.examples is not None or options.draws is not None:
            raise InputError("with --plugin-set the sizes are settings, as in test.examples=256")
        return _of_set(options)
    if options.arguments:
        if len(options.arguments) > 1:
            raise InputError(f"one run at a time, not {' '.join(options.arguments)}")
        if options.examples is not None or options.draws is not None:
            raise InputError("a run has its own sizes: leave --examples and --draws out")
        return [power_of_run(Path(options.arguments[0]), options.base, options.correlation)]
    if options.examples is None or options.base is None:
        raise InputError("give --examples N and --base RATE, or --plugin-set NAME, or a run")
    draws = 1 if options.draws is None else options.draws
    notes = () if options.correlation is not None or draws == 1 else (ASSUMED,)
    correlation = options.correlation or 0.0
    return [power("given", options.examples, draws, options.base, correlation, None, notes)]


def _of_set(options: argparse.Namespace) -> list[Power]:
    import sys

    from whale_core.config import resolve
    from whale_core.evidence.power import power_of_plan
    from whale_core.plugins.manager import load_plugins
    from whale_core.run.preview import preview

    plugins = load_plugins()
    resolved = resolve(plugins, options.plugin_set, options.config, options.arguments)
    calibrated = not options.no_calibration
    if calibrated and sys.stderr.isatty():
        print("calibrating (a few real rollouts; about a minute) …", file=sys.stderr)
    made = preview(resolved, plugins, Path("runs"), calibrated=calibrated)
    core = resolved.core
    sizes = {
        "search": (core.search.examples, core.search.draws),
        "selection": (core.selection.examples, core.selection.draws),
        "test": (core.test.examples, core.test.draws),
    }
    return power_of_plan(made, sizes, options.base, options.correlation)


def lines_of(found: Power) -> list[str]:
    """Return the figures as plain lines."""
    from whale_core.cli.text import count, duration, plural

    def points(gain: float | None) -> str:
        return "none: too few examples" if gain is None else f"{100 * gain:.1f} points"

    apart = ""
    if found.gain_apart != found.gain:
        apart = f"; {points(found.gain_apart)} where difficulty differs between the sides"
    sizes = f"{plural(found.examples, 'example')} × {plural(found.draws, 'draw')}"
    lines = [
        f"{found.name}: {sizes}, base rate {100 * found.base:.1f} %, "
        f"correlation of draws {found.correlation:.2f}",
        f"  gain seen with 80 % power   {points(found.gain)}{apart}",
        f"  rollouts                    {count(found.rollouts)} (both sides)",
    ]
    if found.tokens is not None:
        lines.append(f"  tokens                      {count(round(found.tokens))}")
    if found.seconds is not None:
        lines.append(f"  time                        {duration(found.seconds)}")
    return lines + [f"  note: {note}" for note in found.notes]

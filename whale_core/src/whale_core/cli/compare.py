"""Compare conditions: every plugin set with every seed, or runs that there are already.

The sets' runs are made one after the other (--jobs: several at a time), each in a folder of its own
in DIR. Stopped or killed, the same command with the same --dir goes on where it was. At the end
there is one table, and DIR/comparison.json with every figure.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whale_core.evidence.analysis import Comparison
    from whale_core.evidence.execute import Ended
    from whale_core.evidence.report.compared import Compared
    from whale_core.plugins.manager import Plugins

EXAMPLES = """\
  whale compare weight-only harness-only default --seeds 0..4 --budget rollouts=1500
  whale compare default fst --seeds 0,1,2 --dir runs/prompts domain=chess
  whale compare runs/a runs/b runs/c --format md
  whale compare runs/prompts/*-*/ --json
"""

RESULT = "comparison.json"
SEEDS = "0..2"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``whale compare``."""
    parser.add_argument(
        "what",
        nargs="+",
        metavar="SET|RUN|key=value",
        help="plugin sets to run, and settings for all of them; or the folders of runs",
    )
    parser.add_argument(
        "--seeds", metavar="SEEDS", help=f"seeds of each set: 0,1,2 or 0..4 (default: {SEEDS})"
    )
    parser.add_argument(
        "--budget",
        metavar="UNIT=N",
        help="what each run may spend: rollouts=, tokens=, seconds= or usd=; 5 %% more stops it",
    )
    parser.add_argument(
        "--dir",
        type=Path,
        metavar="DIR",
        help="where the runs and comparison.json are kept (default: runs/compare-DATE-TIME)",
    )
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a YAML file of settings for all runs; may be repeated, the later file wins",
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="runs at the same time (default: 1)"
    )
    parser.add_argument(
        "--format", choices=("text", "md"), default="text", help="how the table is printed"
    )
    parser.add_argument(
        "--json", action="store_true", help="print comparison.json; progress goes to stderr"
    )


def execute(options: argparse.Namespace) -> None:
    """Run what is to be run, compare, print."""
    from whale_core.errors import InputError
    from whale_core.plugins.manager import load_plugins

    if options.jobs < 1:
        raise InputError(f"--jobs {options.jobs}: at least 1")
    settings = [word for word in options.what if "=" in word]
    names = [word for word in options.what if "=" not in word]
    if not names:
        raise InputError("whale compare: name plugin sets (see: whale plugins) or run folders")
    plugins = load_plugins()
    if _are_runs(names, plugins) and not (options.seeds or options.budget):
        if settings or options.config:
            raise InputError(
                f"{(settings or options.config)[0]}: finished runs are compared as they are"
            )
        _show(_of_runs(names), options)
        return
    _run_sets(names, settings, plugins, options)


def _are_runs(names: Sequence[str], plugins: Plugins) -> bool:
    """Say whether the names are run folders. A plugin set is meant where there is one so called."""
    sets = plugins.sets()
    return not any(name in sets for name in names) and any(
        Path(name).is_dir() or (Path("runs") / name).is_dir() for name in names
    )


def _of_runs(names: Sequence[str]) -> Comparison:
    from whale_core.evidence.analysis import compare, grouped
    from whale_core.evidence.collect import collect
    from whale_core.run.reader import find_run

    return compare(grouped([collect(find_run(name)) for name in names]), _command())


def _run_sets(
    names: Sequence[str], settings: Sequence[str], plugins: Plugins, options: argparse.Namespace
) -> None:
    from whale_core.errors import RunFolderError, WhaleError
    from whale_core.evidence.analysis import compare
    from whale_core.evidence.budget import Budget
    from whale_core.evidence.execute import count_rollouts, execute
    from whale_core.evidence.gather import conditions_of
    from whale_core.evidence.plan import PLAN, ComparisonPlan, parse_seeds, plan_comparison
    from whale_core.run.folder import lock_folder
    from whale_core.run.place import default_folder

    seeds = parse_seeds(options.seeds or SEEDS)
    budget = Budget.parse(options.budget) if options.budget else None
    wanted = plan_comparison(plugins, names, seeds, settings, options.config, budget)
    folder = options.dir or default_folder("compare")
    folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder):
        plan = ComparisonPlan.read(folder)
        if plan is None:
            if any(each.name != ".lock" for each in folder.iterdir()):
                raise RunFolderError(f"{folder} holds no comparison: choose an empty --dir")
            plan = count_rollouts(wanted, _say)
            plan.write(folder)
        elif difference := plan.differs(wanted):
            raise RunFolderError(
                f"{folder / PLAN} is of another comparison: {difference}; choose another --dir"
            )
        _say(f"{len(plan.conditions)} conditions × {len(seeds)} seeds in {folder}")
        runs = plan.runs(folder)
        try:
            ended = execute(runs, _say, options.jobs)
        except KeyboardInterrupt:
            raise
        except WhaleError as error:
            if error.exit_code == 130:
                _say(f"to continue: the same command with --dir {folder}")
            raise
        conditions = conditions_of(plan, folder, ended)
        comparison = compare(conditions, _command(), plan.budget, plan.settings)
        _write(comparison, folder)
    _show(comparison, options)
    _say(f"every figure: {folder / RESULT}")
    _raise_for(ended, len(runs))


def _raise_for(ended: dict[int, Ended], runs: int) -> None:
    """Raise what the worst of the runs without a result ended with."""
    from whale_core.errors import WhaleError

    failed = [each for each in ended.values() if each.code]
    if not failed:
        return
    others = [each for each in failed if each.code != 5]
    first = (others or failed)[0]
    again = "; the same command tries again" if others else ""
    error = WhaleError(f"{len(failed)} of {runs} runs have no result: {first.reason}{again}")
    error.exit_code = first.code
    raise error


def _write(comparison: Comparison, folder: Path) -> None:
    from whale_core.run.folder import write_atomically

    text = json.dumps(comparison.as_json(), indent=1, ensure_ascii=False) + "\n"
    write_atomically(folder / RESULT, lambda part: part.write_text(text, encoding="utf-8"))


def _show(comparison: Comparison, options: argparse.Namespace) -> None:
    from whale_core.evidence.report.compared import Compared
    from whale_core.evidence.report.comparison_report import comparison_markdown

    made = comparison.as_json()
    found = Compared(Path(), made)
    if options.json:
        print(json.dumps(made, indent=1, ensure_ascii=False))
    elif options.format == "md":
        print(comparison_markdown(found), end="")
    else:
        _print_text(found)


def _print_text(found: Compared) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from whale_core.cli.text import printable
    from whale_core.evidence.report.sections.compared_result import what_it_showed
    from whale_core.evidence.table import COLUMNS, notes, rows

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    for column in COLUMNS:
        table.add_column(column)
    for row in rows(found.data):
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(Text("mean reward on the test split (95 % t interval from five seeds)"))
    console.print(table)
    for note in (what_it_showed(found), *notes(found.data)):
        console.print(Text(printable(note, 1_000)), soft_wrap=True)


def _say(words: str) -> None:
    from whale_core.cli.text import printable

    print(printable(words, 400), file=sys.stderr, flush=True)


def _command() -> str:
    return shlex.join(["whale", *sys.argv[1:]])

"""Measure every kept θ of runs under every accepted and some held-out harnesses.

Shows how much of what training gained stays with the harness it was made under, and of what a
search found with the weights it was found with. On held-out examples of the selection split, on the
same draws everywhere; the test split stays sealed and the runs are only read. What was measured is
kept in the user's cache, so that a command given again makes only what is missing.
"""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = """\
  whale matrix runs/default-20260101-120000
  whale matrix runs/a runs/b --examples 96 --draws 2 --out matrix.html
  whale matrix runs/mixture-1 runs/mixture-3 --held-out 6 --json
  whale matrix runs/a cap.usd=5
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``whale matrix``."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="run folders, of one task; cap.key=value sets a cap in place of the runs' own",
    )
    parser.add_argument(
        "--examples",
        type=int,
        metavar="N",
        help="examples of selection (default: selection.examples of the first run)",
    )
    parser.add_argument("--draws", type=int, default=1, metavar="N", help="rollouts of each (1)")
    parser.add_argument(
        "--held-out",
        type=int,
        default=4,
        metavar="N",
        help="harnesses that no run accepted or trained under: base harnesses, then candidates (4)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the draws (0)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="also write the heat map: .svg or .html"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the matrix as JSON; progress goes to stderr"
    )


def execute(options: argparse.Namespace) -> None:
    """Measure, print, write."""
    import json
    import sys

    from whale_core.cli.session import RunConsole, watched
    from whale_core.cli.text import count, duration
    from whale_core.errors import InputError
    from whale_core.evidence.heatmap import page, svg, text_lines
    from whale_core.evidence.matrix import Asked, measure_matrix, runs_at
    from whale_core.plugins.manager import load_plugins
    from whale_core.run.folder import write_atomically
    from whale_core.run.reader import find_run

    out: Path | None = options.out
    if out is not None and out.suffix not in (".svg", ".html"):
        raise InputError(f"--out {out}: give a name that ends in .svg or .html")
    if out is not None and not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}")
    caps = tuple(each for each in options.runs if each.startswith("cap.") and "=" in each)
    names = [each for each in options.runs if each not in caps]
    asked = Asked(options.examples, options.draws, options.held_out, options.seed, caps)
    asked.check()
    plugins = load_plugins()
    runs = runs_at([find_run(name) for name in names])
    console = RunConsole(file=sys.stderr if options.json else sys.stdout, highlight=False)
    with watched(plugins, console):
        matrix = measure_matrix(runs, plugins, asked)
    if out is not None:
        text = svg(matrix.grid) if out.suffix == ".svg" else page(matrix.grid)
        write_atomically(out, lambda part: part.write_text(text, encoding="utf-8"))
    if options.json:
        print(json.dumps(matrix.as_json(), indent=2, ensure_ascii=False))
        return
    for line in text_lines(matrix.grid):
        console.print(line, markup=False, soft_wrap=True)
    made = int(matrix.ledger["rollouts"])
    tokens = int(matrix.ledger["prompt_tokens"] + matrix.ledger["sampled_tokens"])
    console.print(
        f"took {count(made)} rollouts, {count(tokens)} tokens, {duration(matrix.seconds)}; "
        f"{count(matrix.kept)} rollouts were there from earlier",
        markup=False,
        soft_wrap=True,
    )

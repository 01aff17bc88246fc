"""Write a report of a run or a comparison: one HTML file that needs no network.

It can be read on a screen, a phone and paper, and sent to colleagues. The page goes to report.html
in the folder of the run or of comparison.json, the other formats to standard output, unless -o
names a file. Takes no lock. The sealed test's rollouts are never shown.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = """\
  whale report runs/default-20260101-120000
  whale report runs/default-20260101-120000 -o report.html
  whale report runs/default-20260101-120000 --watch
  whale report runs/default-20260101-120000 --format md
  whale report runs/compare-20260101-120000 -o chess.html
"""

FORMATS = ("html", "md", "json", "csv")
WATCH_SECONDS = 5
LIVE = ("starting", "running", "unknown")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``whale report``."""
    parser.add_argument(
        "what",
        metavar="RUN|COMPARISON",
        help="a run's folder, or a folder with the comparison.json of whale compare (or that file)",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to write it")
    parser.add_argument("--format", choices=FORMATS, default="html", help="default: html")
    parser.add_argument(
        "--json",
        dest="format",
        action="store_const",
        const="json",
        help="the same as --format json",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="write the page again while the run goes on; an open page loads itself again",
    )


def execute(options: argparse.Namespace) -> None:
    """Read, and write."""
    from whale_core.errors import InputError
    from whale_core.evidence.report.compared import find_comparison

    if options.watch and options.format != "html":
        raise InputError("--watch writes the page: leave --format out")
    comparison = find_comparison(options.what)
    if comparison is not None and options.watch:
        raise InputError("--watch needs a run: a comparison is there when its runs have ended")
    if comparison is not None:
        from whale_core.evidence.report.comparison_report import comparison_text

        _put(comparison_text(comparison, options.format), comparison.parent, options)
        return

    from whale_core.evidence.report.page import FILE
    from whale_core.evidence.report.run_formats import run_csv, run_json, run_markdown
    from whale_core.evidence.report.run_report import run_page
    from whale_core.run.reader import find_run

    folder = find_run(options.what)
    if options.watch:
        _watch(folder, options.output or folder / FILE)
        return
    makers: dict[str, Callable[[Path], str]] = {
        "html": run_page,
        "md": run_markdown,
        "json": run_json,
        "csv": run_csv,
    }
    _put(makers[options.format](folder), folder, options)


def _put(text: str, folder: Path, options: argparse.Namespace) -> None:
    """Write the page to a file, the rest to standard output, if not told otherwise."""
    from whale_core.evidence.report.page import FILE, write_page

    path = options.output or (folder / FILE if options.format == "html" else None)
    if path is None:
        print(text, end="")
        return
    write_page(path, text)
    print(f"report: {path}")


def _watch(folder: Path, path: Path) -> None:
    """Write the page again and again until the run no longer goes on; Ctrl-C ends the watching."""
    import time

    from whale_core.evidence.report.page import write_page
    from whale_core.evidence.report.run_report import run_page
    from whale_core.run.status import read_status

    told = False
    try:
        while read_status(folder).state in LIVE:
            write_page(path, run_page(folder, WATCH_SECONDS))
            if not told:
                print(f"report: {path}, written again every {WATCH_SECONDS} seconds", flush=True)
            told = True
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return
    write_page(path, run_page(folder))
    print(f"report: {path}")

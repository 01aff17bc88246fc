"""Watches one run from the terminal and shows its result."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from whale_core.cli.outputs import LiveOutput, PlainOutput
from whale_core.cli.tables import print_result
from whale_core.cli.view import View
from whale_core.plugins.manager import Plugins


class RunConsole(Console):
    """A console whose reader may go away (``whale run … | head``): the run goes on in silence."""

    def on_broken_pipe(self) -> None:
        """Say no more."""
        self.quiet = True
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), self.file.fileno())


@contextmanager
def watched(plugins: Plugins, console: Console) -> Iterator[None]:
    """Show what is done here on ``console``, by the terminal view as one of the observers."""
    output = LiveOutput(console) if console.is_terminal else PlainOutput(console)
    plugins.observe(View(output, clock=time.monotonic), "terminal view")
    with output:
        yield


def show_run(
    plugins: Plugins, folder: Path, work: Callable[[], Mapping[str, Any]], *, as_json: bool
) -> None:
    """Do ``work`` (a run) with the terminal view as one of its observers, then show the result.

    When it is interrupted at once, the way to continue is printed before ``KeyboardInterrupt`` goes
    on.
    """
    console = RunConsole(file=sys.stderr if as_json else sys.stdout, highlight=False)
    try:
        with watched(plugins, console):
            result = work()
    except KeyboardInterrupt:
        console.print(f"to continue: whale resume {folder}", markup=False, soft_wrap=True)
        raise
    report = _report(folder, console)
    if as_json:
        print(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        print_result(console, result)
        console.print(f"result: {folder}/result.json", markup=False, soft_wrap=True)
        if report is not None:
            console.print(f"report: {report}", markup=False, soft_wrap=True)


def _report(folder: Path, console: Console) -> Path | None:
    """Write the report of a run that has ended; what goes wrong with it is said and no more."""
    from whale_core.evidence.report.run_report import keep_report

    try:
        return keep_report(folder)
    except Exception as error:  # the run is done, and a report can be made at any time
        words = " ".join(f"{type(error).__name__}: {error}".split())
        console.print(f"no report could be written ({words})", markup=False, soft_wrap=True)
        return None

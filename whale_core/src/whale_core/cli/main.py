"""The entry points ``whale`` and ``whale-run``: find the command, run it, report errors.

Nothing heavy is imported here, so ``--help`` answers at once: a command's module is imported when
it is named, and what the command works with when it runs.

Exit codes: 0 done; 2 bad input; 3 an installed plugin fails; 4 run folder trouble; 5 hard cap
reached; 6 an engine, jail, verifier or trainer failed too often; 130 interrupted; 1 a defect. After
the last three, and after 4 when a disk is mended, a run can be resumed.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from keyword import iskeyword
from typing import Protocol, cast

import whale_core
from whale_core.errors import RunFolderError, WhaleError

DEBUG_VARIABLE = "WHALE_DEBUG"
INTERRUPTED = 130
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # where a run has no part in it

COMMANDS = {
    "run": "start a run (whale-run is the same)",
    "plan": "say what a run will take, before anything is spent",
    "resume": "continue a run that was stopped",
    "status": "say how far a run is, or list the runs in ./runs",
    "power": "say which gain a comparison can see, and what it costs",
    "compare": "run conditions under several seeds, or take finished runs, and compare them",
    "diagnose": "probe which coordinate holds a pair back: harness, weights, both or neither yet",
    "matrix": "measure every kept θ of runs under every harness: what carries over",
    "verifier": "judge a run's stored rollouts again by another verifier: agreement and drift",
    "report": "write a report of a run: one HTML file, or Markdown, JSON, CSV",
    "plugins": "list installed plugins and plugin sets, and what is broken",
    "harness": "browse a run's harnesses: list, show, diff, lineage, replay, try",
    "new": "write a new plugin package whose tests pass at once",
    "doctor": "check that everything a run needs works here, with the fix for what does not",
}

EPILOG = """\
examples:
  whale run --plugin-set smoke
  whale run --plugin-set default --seed 1 domain=chess domain.puzzles=puzzles.csv
  whale plan --plugin-set default
  whale status runs/default-20260101-120000
  whale resume runs/default-20260101-120000
  whale compare weight-only default --seeds 0..4
  whale report runs/default-20260101-120000
  whale harness list runs/default-20260101-120000
  whale power --examples 256 --draws 1 --base 0.2
  whale plugins --json
  whale doctor --plugin-set default

exit codes:
  0 done; 2 bad input; 3 an installed plugin fails; 4 run folder trouble; 5 hard cap reached;
  6 an engine, jail, verifier or trainer failed too often; 130 interrupted
  after the last three, and after 4 when a disk is mended, a run can be resumed

Set WHALE_DEBUG=1 to see the traceback of an error.
"""


class Command(Protocol):
    """What a command's module has."""

    EXAMPLES: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's options."""
        ...

    def execute(self, options: argparse.Namespace) -> None:
        """Do the work; raise ``WhaleError`` for what the user can mend."""
        ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``whale`` and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return _guarded(lambda: _dispatch(given))


def main_run(arguments: Sequence[str] | None = None) -> int:
    """Run ``whale-run`` and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return _guarded(lambda: _run_command("run", "whale-run", given))


def _dispatch(given: list[str]) -> None:
    parser = _chooser("whale", "Train an agent's weights and its harness together.", COMMANDS)
    parser.epilog = f"{parser.epilog}\n\n{EPILOG}"
    parser.add_argument("--version", action="version", version=f"whale {whale_core.__version__}")
    options = parser.parse_args(given)
    _run_command(options.command, f"whale {options.command}", options.arguments)


def _chooser(
    program: str, description: str, commands: Mapping[str, str]
) -> argparse.ArgumentParser:
    """Return the parser of a program that is a group of commands."""
    listing = "\n".join(f"  {name:<10} {summary}" for name, summary in commands.items())
    parser = argparse.ArgumentParser(
        prog=program,
        description=description,
        epilog=f"commands (each has --help):\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=list(commands), metavar="command")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _run_command(name: str, program: str, given: list[str]) -> None:
    """Run the command of the module ``name`` (below this package), or one of its group."""
    module = import_module(f"whale_core.cli.{name}")
    if hasattr(module, "COMMANDS"):
        parser = _chooser(program, module.__doc__ or "", module.COMMANDS)
        parser.epilog = f"{parser.epilog}\n\nexamples:\n{module.EXAMPLES}"
        options = parser.parse_args(given)
        file = f"{options.command}_" if iskeyword(options.command) else options.command
        _run_command(f"{name}.{file}", f"{program} {options.command}", options.arguments)
        return
    command = cast(Command, module)
    parser = argparse.ArgumentParser(
        prog=program,
        description=command.__doc__,
        epilog=f"examples:\n{command.EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    command.execute(parser.parse_intermixed_args(given))


def _guarded(work: Callable[[], None]) -> int:
    """Do ``work``; print an error as one line on stderr and return its exit code."""
    try:
        work()
    except BrokenPipeError:  # the reader of our output went away: there is nobody to tell
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return 0
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # rich's way to say the same
            return 0
        raise
    except KeyboardInterrupt:
        return _report("interrupted", INTERRUPTED)
    except WhaleError as error:
        return _report(str(error), error.exit_code)
    except OSError as error:
        if error.filename is None and error.errno in UNWRITABLE:
            reason = error.strerror or type(error).__name__
            return _report(f"cannot write the output: {reason}", RunFolderError.exit_code)
        if error.filename is None:
            return _defect(error)
        reason = error.strerror or type(error).__name__
        return _report(f"{error.filename!s}: {reason}", RunFolderError.exit_code)
    except Exception as error:
        return _defect(error)
    return 0


def _defect(error: Exception) -> int:
    where = _place(error)
    hint = f"this is a defect, at {where}; set {DEBUG_VARIABLE}=1 for the traceback"
    return _report(f"{type(error).__name__}: {error} ({hint})", 1)


def _place(error: Exception) -> str:
    """Return file and line of the innermost call in a plugin's code, else of the innermost call."""
    from importlib.metadata import entry_points
    from traceback import walk_tb

    from whale_core.plugins import ENTRY_POINT_GROUP

    entries = entry_points(group=ENTRY_POINT_GROUP)
    plugins = {entry.module.partition(".")[0] for entry in entries} - {"whale_core"}
    calls = [
        (str(frame.f_globals.get("__name__")), f"{frame.f_code.co_filename}:{line}")
        for frame, line in walk_tb(error.__traceback__)
    ]
    theirs = [call for call in calls if call[0].partition(".")[0] in plugins]
    return (theirs or calls or [("", "")])[-1][1]


def _report(message: str, exit_code: int) -> int:
    from whale_core.cli.text import printable

    if os.environ.get(DEBUG_VARIABLE):
        import traceback

        traceback.print_exc()
    lines = [printable(line, limit=2000) for line in message.splitlines() or [""]]
    print("whale: " + "\n       ".join(lines), file=sys.stderr)
    return exit_code

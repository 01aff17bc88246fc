"""The entry points ``whale`` and ``whale-run``: find the command, run it, report errors.

Nothing heavy is imported here, so ``--help`` answers at once: a command's module is imported when
it is named, and what the command works with when it runs.

Exit codes: 0 done; 2 bad input; 3 an installed plugin fails; 4 run folder trouble; 5 hard cap
reached; 6 an engine, jail, verifier or trainer failed too often; 130 interrupted; 1 a defect. After
the last three, and after 4 when a disk is mended, a run can be resumed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Protocol, cast

import whale_core
from whale_core.errors import RunFolderError, WhaleError

DEBUG_VARIABLE = "WHALE_DEBUG"
INTERRUPTED = 130

COMMANDS = {
    "run": "start a run (whale-run is the same)",
    "resume": "continue a run that was stopped",
    "plugins": "list installed plugins and plugin sets, and what is broken",
    "new": "write a new plugin package whose tests pass at once",
    "doctor": "check that everything a run needs works here, with the fix for what does not",
}

EPILOG = """\
examples:
  whale run --plugin-set smoke
  whale run --plugin-set default --seed 1 domain.puzzles=puzzles.csv
  whale resume runs/default-20260101-120000
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
    listing = "\n".join(f"  {name:<10} {summary}" for name, summary in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="whale",
        description="Train an agent's weights and its harness together.",
        epilog=f"commands (each has --help):\n{listing}\n\n{EPILOG}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"whale {whale_core.__version__}")
    parser.add_argument("command", choices=list(COMMANDS), metavar="command")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    _run_command(options.command, f"whale {options.command}", options.arguments)


def _run_command(name: str, program: str, given: list[str]) -> None:
    command = cast(Command, import_module(f"whale_core.cli.{name}"))
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
    except KeyboardInterrupt:
        return _report("interrupted", INTERRUPTED)
    except WhaleError as error:
        return _report(str(error), error.exit_code)
    except OSError as error:
        if error.filename is None:
            return _defect(error)
        reason = error.strerror or type(error).__name__
        return _report(f"{error.filename!s}: {reason}", RunFolderError.exit_code)
    except Exception as error:
        return _defect(error)
    return 0


def _defect(error: Exception) -> int:
    hint = f"this is a defect; set {DEBUG_VARIABLE}=1 for the traceback"
    return _report(f"{type(error).__name__}: {error} ({hint})", 1)


def _report(message: str, exit_code: int) -> int:
    from whale_core.cli.text import printable

    if os.environ.get(DEBUG_VARIABLE):
        import traceback

        traceback.print_exc()
    lines = [printable(line, limit=2000) for line in message.splitlines() or [""]]
    print("whale: " + "\n       ".join(lines), file=sys.stderr)
    return exit_code

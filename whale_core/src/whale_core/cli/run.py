"""Start a run: improve weights and harness as a plugin set says.

A setting is key=value or key.sub=value; it stands above files, the domain's recommendation and the
plugin set. domain=NAME (or any other role) chooses another plugin. A relative path counts from the
current folder, in a --config file from that file's folder.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from whale_core.cli.configuration import add_run_configuration, resolved_run

EXAMPLES = """\
  whale-run --plugin-set smoke
  whale-run --plugin-set default --seed 3
  whale-run --plugin-set default --config mine.yaml scheduler.iterations=6
  whale-run --plugin-set default domain=chess domain.puzzles=puzzles.csv --run-dir runs/lichess
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``whale run``."""
    add_run_configuration(parser)
    parser.add_argument(
        "--run-dir",
        type=Path,
        metavar="DIR",
        help="where the run is kept (default: runs/NAME-DATE-TIME)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the result as JSON; progress goes to stderr"
    )


def execute(options: argparse.Namespace) -> None:
    """Resolve the settings, run, show the result."""
    from whale_core.plugins.manager import load_plugins

    plugins = load_plugins()
    resolved = resolved_run(plugins, options)
    folder = options.run_dir or _default_folder(options.plugin_set)
    _check_unused(folder)

    from whale_core.cli.session import show_run
    from whale_core.run.session import run

    show_run(plugins, folder, lambda: run(resolved, plugins, folder), as_json=options.json)


def _default_folder(plugin_set: str) -> Path:
    return Path("runs") / f"{plugin_set}-{time.strftime('%Y%m%d-%H%M%S')}"


def _check_unused(folder: Path) -> None:
    from whale_core.errors import RunFolderError
    from whale_core.run.folder import refuse_used

    try:
        refuse_used(folder)
        exists = folder.exists()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RunFolderError(f"run folder {folder}: {reason}; choose another --run-dir") from error
    if not exists:
        above = next(parent for parent in folder.absolute().parents if parent.exists())
        if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
            raise RunFolderError(
                f"run folder {folder}: nothing can be written in {above}; choose another --run-dir"
            )

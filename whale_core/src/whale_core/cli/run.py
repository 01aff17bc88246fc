"""Start a run: improve weights and harness as a plugin set says.

A setting is key=value or key.sub=value; it stands above files, the domain's recommendation and the
plugin set. domain=NAME (or any other role) chooses another plugin. A relative path counts from the
current folder, in a --config file from that file's folder.
"""

from __future__ import annotations

import argparse
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

    from whale_core.cli.session import show_run
    from whale_core.run.place import check_unused, default_folder
    from whale_core.run.session import run

    folder = options.run_dir or default_folder(options.plugin_set)
    check_unused(folder)

    show_run(plugins, folder, lambda: run(resolved, plugins, folder), as_json=options.json)

"""Continue a run that was stopped: interrupted, capped, or with too much not scored."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = """\
  whale resume runs/default-20260101-120000
  whale resume runs/default-20260101-120000 cap.rollouts=20000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``whale resume``."""
    parser.add_argument("run", type=Path, metavar="RUN", help="the run's folder")
    parser.add_argument(
        "--json", action="store_true", help="print the result as JSON; progress goes to stderr"
    )
    parser.add_argument(
        "caps", nargs="*", metavar="cap.key=value", help="new caps (0: none); all else stays"
    )


def execute(options: argparse.Namespace) -> None:
    """Continue the run, show the result."""
    from whale_core.errors import RunFolderError

    if not options.run.is_dir():
        raise RunFolderError(f"no run folder at {options.run}")

    from whale_core.cli.session import show_run
    from whale_core.plugins.manager import load_plugins
    from whale_core.run.session import resume

    plugins = load_plugins()
    show_run(
        plugins,
        options.run,
        lambda: resume(options.run, plugins, options.caps),
        as_json=options.json,
    )

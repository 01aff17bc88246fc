"""The arguments from which a configuration is resolved: files and settings."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whale_core.config import Resolved
    from whale_core.plugins.manager import Plugins


def add_configuration(parser: argparse.ArgumentParser) -> None:
    """Declare ``--config FILE …`` and the positional ``key.sub=value …``."""
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a YAML file of settings; may be repeated, the later file wins",
    )
    parser.add_argument("settings", nargs="*", metavar="key.sub=value", help="settings")


def add_run_configuration(parser: argparse.ArgumentParser) -> None:
    """Declare all that says what a run does: the plugin set, files and settings, shorthands."""
    parser.add_argument("--plugin-set", required=True, metavar="NAME", help="see: whale plugins")
    add_configuration(parser)
    parser.add_argument("--seed", type=int, metavar="N", help="the same as seed=N")
    parser.add_argument(
        "--skip-bad-rows",
        action="store_true",
        help="leave bad rows of data files out and report them (domain.skip_bad_rows=true)",
    )


def resolved_run(plugins: Plugins, options: argparse.Namespace) -> Resolved:
    """Return the configuration that the options of ``add_run_configuration`` name."""
    from whale_core.config import resolve

    overrides = list(options.settings)
    if options.seed is not None:
        overrides.append(f"seed={options.seed}")
    if options.skip_bad_rows:
        overrides.append("domain.skip_bad_rows=true")
    return resolve(plugins, options.plugin_set, options.config, overrides)

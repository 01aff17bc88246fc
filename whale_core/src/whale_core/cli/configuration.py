"""The arguments from which a configuration is resolved: files and settings."""

from __future__ import annotations

import argparse
from pathlib import Path


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

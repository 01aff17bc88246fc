"""The arguments that the harness commands share."""

from __future__ import annotations

import argparse


def add_run(parser: argparse.ArgumentParser) -> None:
    """Declare ``RUN`` and ``--json``."""
    parser.add_argument("run", metavar="RUN", help="the run's folder, or its name in runs/")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def add_harness(parser: argparse.ArgumentParser, name: str = "harness") -> None:
    """Declare a harness of the run as the argument ``name``."""
    parser.add_argument(
        name,
        metavar="HARNESS",
        help="its name (h0003 or h3; h0: the first one), or the start of its content id",
    )

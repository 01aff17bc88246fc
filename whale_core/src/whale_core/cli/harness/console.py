"""The console of the harness commands: as wide as it gets when its output is piped."""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO

from rich.console import Console

PIPED_WIDTH = 500


def open_console(file: TextIO | None = None) -> Console:
    """Return a console on ``file`` (standard output) that neither highlights nor cuts."""
    console = Console(file=file or sys.stdout, highlight=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    return console


def print_json(value: Any) -> None:
    """Print ``value`` as JSON that any terminal and any reader can take."""
    print(json.dumps(value, indent=2))

"""Runs of the command line, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import warm_kit

Whale = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def program() -> str:
    """The installed console script."""
    return str(Path(sys.executable).parent / "whale")


@pytest.fixture(scope="session")
def whale(state: Path) -> Whale:
    """Run ``whale`` with arguments, started warm, and return the finished process."""

    def run(*arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return warm_kit.run(
            arguments, timeout=timeout, env={**os.environ, "WHALE_STATE": str(state)}
        )

    return run

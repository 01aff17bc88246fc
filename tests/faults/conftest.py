"""A whole run to compare interrupted ones with; the rest lies beside the tests, in ``…_kit``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for the *_kit modules, also in child processes


@pytest.fixture(scope="session")
def finished(smoke_run: Path) -> Path:
    """A run of the set ``smoke`` that was never interrupted."""
    return smoke_run

"""A whole run to compare interrupted ones with; the rest lies beside the tests, in ``…_kit``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for the *_kit modules, also in child processes

from resume_kit import SMOKE, command


@pytest.fixture(scope="session")
def finished(state: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the set ``smoke`` that is never interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    process = command(["run", *SMOKE, "--run-dir", str(folder)], state)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    return folder

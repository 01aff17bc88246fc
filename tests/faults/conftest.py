"""A whole run to compare interrupted ones with; the rest lies beside the tests, in ``…_kit``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from shared_kit import made_once

sys.path.insert(0, str(Path(__file__).parent))  # for the *_kit modules, also in child processes

from resume_kit import SMALL, command


@pytest.fixture(scope="session")
def small(state: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with the settings ``SMALL`` that was never interrupted."""

    def make(folder: Path) -> None:
        process = command(["run", *SMALL, "--run-dir", str(folder / "run")], state)
        _, errors = process.communicate()
        assert process.returncode == 0, errors

    return made_once(tmp_path_factory, "small", make) / "run"

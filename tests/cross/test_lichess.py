"""The plugin set ``default`` on real Lichess puzzles, from beginning to end."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Whale = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.slow
def test_default_runs_through_on_real_puzzles(
    sample_data: Path, whale: Whale, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    puzzles = sample_data / "lichess_puzzles.csv"
    done = whale(
        "run",
        "--plugin-set=default",
        f"--run-dir={folder}",
        "domain=chess",
        f"domain.puzzles={puzzles}",
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads((folder / "result.json").read_text())
    assert set(result["pairs"]) == {"theta0_h0", "theta0_h", "theta_h0", "theta_h"}
    assert "all are used" in done.stdout + done.stderr

"""The Python API with every real part: against the command line, in the guide, in the notebook."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from run_kit import journal_of, result_of, timeless

from whale_core.api import evaluate, run

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
SMALL = {
    "domain": {"harness": 8},
    "scheduler.epochs": 0.125,
    "scheduler.total_epochs": 0.25,
    "search.examples": 8,
    "test": {"examples": 8, "draws": 1},
}
WORDS = ["domain.harness=8", "scheduler.epochs=0.125", "scheduler.total_epochs=0.25"]
WORDS += ["search.examples=8", "test.examples=8", "test.draws=1"]
Whale = Callable[..., subprocess.CompletedProcess[str]]


def contents(folder: Path) -> dict[str, Any]:
    return {
        "journal": timeless(journal_of(folder)),
        "result": timeless(result_of(folder)),
        "config": (folder / "config.yaml").read_text(),
        "manifest": json.loads((folder / "manifest.json").read_text()),
    }


def test_one_seed_is_one_run_from_python_and_from_the_command_line(
    whale: Whale, state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHALE_STATE", str(state))
    done = whale(
        "run", "--plugin-set=smoke", f"--run-dir={tmp_path}/cli", "--seed=5", *WORDS, timeout=900
    )
    assert done.returncode == 0, done.stderr
    result = run("smoke", SMALL, seed=5, run_dir=tmp_path / "api", progress=False)
    theirs, ours = contents(tmp_path / "cli"), contents(tmp_path / "api")
    for part in theirs:
        assert ours[part] == theirs[part], part
    assert [end.kind for end in result.phases] == ["start", "weights", "harness", "weights"]
    assert result.checkpoint is not None and (result.checkpoint / "model.safetensors").is_file()

    last = result.phases[-1]
    assert last.checkpoint is not None
    weights = result.folder / "weights" / last.checkpoint
    harness = result.folder / "accepted" / "phase-003.py"
    score = evaluate(
        "smoke", SMALL, seed=5, harness=harness, checkpoint=weights, progress=False
    ).as_json()
    assert {**score, "harness": last.harness} == last.selection


def test_every_block_of_the_guide_runs(state: Path, tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / "docs" / "python.md").read_text())
    assert len(blocks) > 8
    (tmp_path / "guide.py").write_text("\n".join(blocks))
    done = subprocess.run(
        [sys.executable, "-W", "error", "guide.py"],
        cwd=tmp_path,
        env={**os.environ, "WHALE_STATE": str(state)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "domain.weigth: unknown key, did you mean 'weight'?" in done.stdout
    assert "cap.rollouts=40 is reached" in done.stdout


@pytest.mark.filterwarnings("default")  # of Jupyter's own packages
def test_the_notebook_runs(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHALE_STATE", str(state))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(ROOT / "examples" / "quickstart.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs"
    client = NotebookClient(notebook, kernel_name="python3", resources=here(tmp_path))
    client.execute()
    printed = "".join(
        output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ())
    )
    assert "the test split is sealed" in printed
    assert "cap.rollouts=80 is reached" in printed
    assert "run finished" in printed  # the view, from the thread that works


def here(folder: Path) -> dict[str, Any]:
    return {"metadata": {"path": str(folder)}}

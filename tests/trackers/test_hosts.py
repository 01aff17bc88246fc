"""Weights & Biases (offline) and MLflow (a local store), with the real libraries.

They are large, so they are no part of the tested set: ``pip install wandb mlflow``, then
``python -m pytest -m slow tests/trackers``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trackers_kit import Told

from whale_trackers import to_mlflow, to_wandb

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # of these libraries


@pytest.fixture
def wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = pytest.importorskip("wandb", reason="needs whale-trackers[wandb]")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    yield module
    module.finish()


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = pytest.importorskip("mlflow", reason="needs whale-trackers[mlflow]")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    yield module
    module.end_run()


def test_wandb_goes_into_the_run_that_the_program_has_open(wandb: Any, tmp_path: Path) -> None:
    host = wandb.init(project="mine", dir=str(tmp_path))
    host.log({"own": 1})
    told = Told(tmp_path / "run", to_wandb(prefix="whale/"))
    assert wandb.run is host
    told.steps([1, 2])
    assert host.summary["whale/train/reward"] == pytest.approx(0.2)
    assert host.summary["whale/rollouts"] == 16
    told.end()
    assert told.failed == [] and wandb.run is host
    host.log({"own": 2})  # still open
    assert not (tmp_path / "run" / "wandb").exists()


def test_wandb_opens_one_and_goes_on_in_it(wandb: Any, tmp_path: Path) -> None:
    told = Told(tmp_path / "run", to_wandb(x="weight_step"))
    told.steps([1])
    first = wandb.run.id
    assert first == "run-01234567" and wandb.run.name == "run"
    wandb.finish()  # as a killed process would have left it
    told = Told(tmp_path / "run", to_wandb(x="weight_step"))
    assert wandb.run.id == first
    told.steps([2])
    told.end()
    assert told.failed == [] and wandb.run is None


def points(mlflow: Any, run_id: str, name: str) -> list[tuple[int, float]]:
    history = mlflow.MlflowClient().get_metric_history(run_id, name)
    return [(each.step, each.value) for each in history]


def test_mlflow_goes_into_the_run_that_the_program_has_open(mlflow: Any, tmp_path: Path) -> None:
    with mlflow.start_run() as host:
        told = Told(tmp_path / "run", to_mlflow(prefix="whale/"))
        told.steps([1, 2])
        told.end()
        mlflow.log_metric("own", 1)  # still open
    found = points(mlflow, host.info.run_id, "whale/train/loss")
    assert told.failed == [] and found == [(8, 1.0), (16, 0.5)]
    assert len(mlflow.search_runs(output_format="list")) == 1


def test_mlflow_opens_one_and_goes_on_in_it(mlflow: Any, tmp_path: Path) -> None:
    Told(tmp_path / "run", to_mlflow()).steps([1])  # and then it was killed
    told = Told(tmp_path / "run", to_mlflow())
    told.steps([2])
    told.end()
    (made,) = mlflow.search_runs(output_format="list")
    assert told.failed == [] and made.info.status == "FINISHED" and made.info.run_name == "run"
    assert points(mlflow, made.info.run_id, "train/loss") == [(8, 1.0), (16, 0.5)]
    Told(tmp_path / "other", to_mlflow()).steps([1])
    assert len(mlflow.search_runs(output_format="list")) == 2

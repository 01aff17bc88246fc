"""The engine ``null-model``: a null model answers through the harness, nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from run_kit import blocks_of, timeless

from whale_core.api import run
from whale_core.errors import EngineError, InputError
from whale_core.plugins import Setup
from whale_core.rollout.null_engine import NullEngine, NullEngineConfig
from whale_core.testing.toy import DomainConfig, ToyDomain

SETUP = Setup(seed=0, domain=ToyDomain(DomainConfig(), Setup(seed=0)))
SMALL: dict[str, Any] = {
    "domain": "toy",
    "verifier": "toy",
    "engine": "null-model",
    "scheduler": "evaluation-only",
    "selection": {"examples": 4, "draws": 1},
    "test": {"examples": 64, "draws": 12},
}


def test_a_run_with_it_finds_the_chance_floor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The harness takes the first listed letter of a reply of one random listed letter."""
    monkeypatch.setenv("WHALE_STATE", str(tmp_path / "state"))
    result = run(SMALL, run_dir=tmp_path / "a")
    final = result.pairs["theta_h"]
    chance = result.data["chance"]["uniform listed"]
    assert final["low"] <= chance <= final["high"] and final["high"] - final["low"] < 0.15
    assert final["weights_id"] == "null:random" and final["draws"] == 12
    assert result.pairs["theta0_h0"] == final and result.data["phases"] == 0
    assert result.ledger["rollouts"] == 4 + 64 * 12
    same = run(SMALL, run_dir=tmp_path / "b")
    assert timeless(blocks_of(same.folder)) == timeless(blocks_of(result.folder))


def test_another_null_model_by_name() -> None:
    assert NullEngine(NullEngineConfig("first-listed"), SETUP).facts() == {
        "engine": "null-model",
        "null_model": "first-listed",
    }


def test_what_it_cannot_do_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'first-listed'"):
        NullEngine(NullEngineConfig("first-liste"), SETUP)
    with pytest.raises(InputError, match="has no null models"):
        NullEngine(NullEngineConfig(), Setup(seed=0))
    engine = NullEngine(NullEngineConfig(), SETUP)
    with pytest.raises(InputError, match="no weights"):
        asyncio.run(engine.load(tmp_path))
    for refused in (engine.generate([]), engine.save(tmp_path)):
        with pytest.raises(EngineError, match="null-model"):
            asyncio.run(refused)

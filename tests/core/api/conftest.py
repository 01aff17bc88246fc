"""Settings of runs that take a moment: the toy domain, a function for a model, no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whale_core.api import register
from whale_core.plugins import here
from whale_core.testing.engine import ScriptedEngine


def guess(prompt: str, rng: np.random.Generator) -> str:
    return str(rng.choice(list("aeioubcdfg")))


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Each test registers for itself, counts test openings apart, and works in a folder apart."""
    monkeypatch.setattr(here, "_REGISTERED", {})
    monkeypatch.setenv("WHALE_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    yield


@pytest.fixture
def toy() -> Mapping[str, Any]:
    """What rollouts need."""
    register("engine", "guessing", lambda settings, setup: ScriptedEngine(guess))
    return {
        "domain": {"name": "toy", "weight": 32, "harness": 8, "selection": 8, "test": 8},
        "verifier": "toy",
        "engine": "guessing",
        "selection": {"examples": 8, "draws": 1},
    }


@pytest.fixture
def searching(toy: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a search needs."""
    return {
        **toy,
        "proposer": "mutation",
        "harness_search": {"name": "meta-harness", "candidates": 1},
        "scheduler": {"name": "harness-only", "iterations": 2},
        "search.examples": 8,
        "test": {"examples": 8, "draws": 1},
    }

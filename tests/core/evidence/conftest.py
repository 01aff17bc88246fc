"""Worlds to diagnose: registered for each test, with state and cache folders of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from whale_core.plugins import here

sys.path.insert(0, str(Path(__file__).parent))  # for worlds_kit

from worlds_kit import LetterEngine, register_worlds, run_world


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[LetterEngine]]:
    """Register the worlds' parts; the list gets every engine that is built."""
    monkeypatch.setattr(here, "_REGISTERED", {})
    monkeypatch.setenv("WHALE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("WHALE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    built: list[LetterEngine] = []
    register_worlds(built)
    yield built


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run in the world where both are needed, and its state folder beside it."""
    folder = tmp_path_factory.mktemp("evidence")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(here, "_REGISTERED", {})
        patch.setenv("WHALE_STATE", str(folder / "state"))
        register_worlds([])
        run_world(folder / "run")
    return folder / "run"

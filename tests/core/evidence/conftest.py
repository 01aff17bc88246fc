"""Worlds to diagnose: registered for each test, with a state folder of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from whale_core.plugins import here

sys.path.insert(0, str(Path(__file__).parent))  # for worlds_kit

from worlds_kit import LetterEngine, register_worlds  # noqa: E402


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

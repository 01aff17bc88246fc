from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from whale_chess.config import Config
from whale_chess.domain import ChessDomain
from whale_core.plugins import Setup

sys.path.insert(0, str(Path(__file__).parent))  # for chess_fakes

from chess_fakes import HEADER


@pytest.fixture(scope="session")
def domain() -> ChessDomain:
    return ChessDomain(Config(), Setup(seed=1))


@pytest.fixture
def csv_file(tmp_path: Path) -> Callable[..., Path]:
    """Write rows (already joined by commas) under the Lichess header."""

    def write(*rows: str, name: str = "puzzles.csv") -> Path:
        path = tmp_path / name
        path.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
        return path

    return write

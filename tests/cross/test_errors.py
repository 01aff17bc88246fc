"""Bad input: one clear line, exit code 2, nothing started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

Whale = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["domain=chess", "domain.puzzel=x"], "domain.puzzel: unknown key"),
        (["domain=chess", "domain.puzzles=/nowhere/puzzles.csv"], "/nowhere/puzzles.csv"),
        (["scheduler=fixt"], "did you mean 'fixed'?"),
        (["model_update.lr=fast"], "model_update.lr"),
        (["harness=unknown"], "harness=unknown"),
        (["engine.model=/nowhere/model"], "/nowhere/model"),
        pytest.param(
            ["model_update.trainer=openrlhf"],
            "pip install 'whale-rsft[openrlhf]'",
            marks=pytest.mark.skipif(find_spec("openrlhf") is not None, reason="it is installed"),
        ),
    ],
)
def test_one_line_and_exit_2(arguments: list[str], said: str, whale: Whale, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = whale("run", "--plugin-set", "default", "--run-dir", str(folder), *arguments)
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert said in lines[0]
    assert not folder.exists()


def test_several_mistakes_are_said_at_once(whale: Whale) -> None:
    done = whale("run", "--plugin-set", "default", "sead=1", "search.examples=0", "test.draw=2")
    assert done.returncode == 2
    assert all(name in done.stderr for name in ("sead", "search.examples", "test.draw"))


def test_a_corrupt_puzzle_row_is_named(whale: Whale, tmp_path: Path) -> None:
    puzzles = tmp_path / "puzzles.csv"
    puzzles.write_text(
        "PuzzleId,FEN,Moves,Rating,RatingDeviation,Popularity,NbPlays,Themes,GameUrl,OpeningTags\n"
        "x,not a position,e2e4 e7e5,1500,80,90,10,mate,https://lichess.org/abc#1,\n"
    )
    done = whale("run", "--plugin-set", "default", "domain=chess", f"domain.puzzles={puzzles}")
    assert done.returncode == 2
    assert f"{puzzles}" in done.stderr and "line 2" in done.stderr and "FEN" in done.stderr


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, contextlib\n"
        "from whale_core.cli.main import main_run\n"
        "with contextlib.suppress(SystemExit):\n"
        "    main_run(['--help'])\n"
        "heavy = {'torch', 'transformers', 'numpy', 'omegaconf', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

"""Damaged input on the command line: one line, the right exit code, no traceback, nothing made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from whale_chess.puzzles import bundled
from whale_core.cli.main import main_run
from whale_transformers import tiny

SMALL = ["domain.weight=32", "domain.harness=8", "domain.selection=8", "domain.test=8"]


@pytest.fixture
def puzzles(tmp_path: Path) -> Path:
    """Sixty good puzzles."""
    data = zstandard.ZstdDecompressor().decompressobj().decompress(bundled("puzzles").read_bytes())
    path = tmp_path / "puzzles.csv"
    path.write_bytes(b"\n".join(data.splitlines()[:61]) + b"\n")
    return path


def refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, *arguments: str) -> tuple[int, str]:
    """Run ``whale-run`` in this process; return the exit code and the one line it prints."""
    folder = tmp_path / "run"
    given = list(arguments)
    if "--run-dir" not in arguments:
        given += ["--run-dir", str(folder)]
    code = main_run(given)
    printed = capsys.readouterr()
    (line,) = [line for line in printed.err.splitlines() if line.strip()]
    assert "Traceback" not in printed.err and "defect" not in line and line.startswith("whale: ")
    assert not folder.exists()
    return code, line


def test_inputs(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    puzzles: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = puzzles.read_bytes()
    (tmp_path / "cut.csv.zst").write_bytes(zstandard.compress(whole)[:-40])
    (tmp_path / "bad.csv").write_bytes(whole + b"x,8/8,\n")
    (tmp_path / "few.csv").write_bytes(whole[:300])
    (tmp_path / "bomb.yaml").write_text("a: &a [1]\nb: &b [*a,*a]\n" * 20)
    (tmp_path / "bad.py").write_text("\nimport numpy\n")
    (tmp_path / "latin.py").write_bytes(b"# \xe9\n")
    (tmp_path / "model").mkdir()
    tiny.build(tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    chess = ["--plugin-set", "default", "domain=chess", "engine.model=tiny-random", *SMALL]
    smoke = ["--plugin-set", "smoke", "engine.threads=1"]
    cases = [
        ([*chess, "domain.puzzles=cut.csv.zst"], f"{tmp_path}/cut.csv.zst: line "),
        (
            [*chess, "domain.puzzles=bad.csv"],
            "/bad.csv: 1 of 61 rows are bad (Rating 1): line 62",
        ),
        ([*chess, "domain.puzzles=bad.csv"], "--skip-bad-rows"),
        ([*chess, "domain.puzzles=few.csv", "--skip-bad-rows"], "usable puzzles are too few"),
        ([*chess, "domain.puzzles=/"], "/: Is a directory"),
        ([*smoke, "--skip-bad-rows"], "domain.skip_bad_rows: unknown key"),
        ([*smoke, "--config", "bomb.yaml"], "bomb.yaml, line 3: found duplicate key a"),
        ([*smoke, "harness=bad.py"], f"harness={tmp_path}/bad.py: line 2: ModuleNotFoundError"),
        ([*smoke, "harness=latin.py"], f"harness={tmp_path}/latin.py: line 1: not UTF-8"),
        ([*smoke, "engine.model=model"], f"{weights}: cannot be read, it is incomplete"),
        ([*smoke, "engine.model=" + "x" * 300], "no such folder"),
    ]
    for arguments, said in cases:
        code, line = refused(capsys, tmp_path, *arguments)
        assert code == 2 and said in line, line


def test_skipped_rows_reach_the_user(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, puzzles: Path
) -> None:
    """With the option a run begins, and its notes say what was left out."""
    puzzles.write_bytes(puzzles.read_bytes() + b"x,8/8,\ny\n")
    seen: list[tuple[str, ...]] = []

    def look(parts: object) -> None:
        seen.append(parts.notes)  # type: ignore[attr-defined]
        raise KeyboardInterrupt  # enough: the notes are known

    import whale_core.run.session as session

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "check_loads", look)
        arguments = ["--plugin-set", "default", "engine.model=tiny-random", *SMALL]
        arguments += ["domain=chess"]
        arguments += [f"domain.puzzles={puzzles}", "--skip-bad-rows"]
        assert main_run([*arguments, "--run-dir", str(tmp_path / "run")]) == 130
    capsys.readouterr()
    ((note, *_),) = seen
    assert note == (
        f"{puzzles}: 2 of 62 rows were skipped (FEN 1, Rating 1): line 62, "
        "Rating: missing, the row has 3 of 10 fields; "
        "line 63, FEN: missing, the row has 1 of 10 fields"
    )


def test_folders_that_cannot_be_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smoke = ["--plugin-set", "smoke", "engine.threads=1"]
    (tmp_path / "file").write_text("")
    for cache in (tmp_path / "file", Path("/proc/nowhere"), tmp_path / "file" / "deeper"):
        monkeypatch.setenv("WHALE_CACHE", str(cache))
        code, line = refused(capsys, tmp_path, *smoke)
        assert code == 2 and str(cache) in line and "cannot be written" in line
        assert "WHALE_CACHE" in line
    monkeypatch.undo()
    for folder in ("/proc/nowhere/run", str(tmp_path / "file" / "run"), "x" * 300):
        code, line = refused(capsys, tmp_path, *smoke, "--run-dir", folder)
        assert code == 4 and folder in line, line
    if os.geteuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
        code, line = refused(capsys, tmp_path, *smoke, "--run-dir", f"{tmp_path}/locked/run")
        assert code == 4 and "nothing can be written" in line


def test_a_process_of_its_own_prints_no_traceback(tmp_path: Path) -> None:
    """Warnings of libraries included: one line, and JSON's place stays empty."""
    tiny.build(tmp_path)
    facts = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**facts, "num_hidden_layers": 3}))
    program = Path(sys.executable).parent / "whale"
    done = subprocess.run(
        [program, "run", "--plugin-set", "smoke", "--json", f"engine.model={tmp_path}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert str(tmp_path) in line and "model.layers.2." in line and "is missing" in line

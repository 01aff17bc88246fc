"""The command killed while it works, and called again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_encoder_kit import write_encoder

COMMAND = str(Path(sys.executable).parent / "whale-searchqa")


def corpus_of(path: Path, passages: int) -> Path:
    with path.open("w") as file:
        for row in range(passages):
            contents = f'"Title {row}"\n' + f"some words {row % 997} and more {row} " * 4
            file.write(json.dumps({"id": str(row), "contents": contents}) + "\n")
    return path


def killed_once(command: list[str], sign: Path) -> None:
    """Run ``command`` and kill it as soon as ``sign`` is there."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while not sign.exists():
        assert process.poll() is None and time.monotonic() < until, "it ended before it was killed"
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def ran(*arguments: str, expected: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True)
    assert done.returncode == expected, done.stderr
    return done


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bm25", "dense"])
def test_a_killed_index_is_never_taken_for_whole_and_is_finished(kind: str, tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "corpus.jsonl", 60_000 if kind == "bm25" else 9_000)
    given = ["index", str(corpus), "--kind", kind]
    if kind == "dense":
        given += ["--encoder", str(write_encoder(tmp_path / "encoder")), "--pooling", "mean"]
    part = tmp_path / "killed.part"
    sign = part / ("manifest.json" if kind == "bm25" else "shards/000000.npy")
    killed_once([COMMAND, *given, "--out", str(tmp_path / "killed")], sign)
    assert not (tmp_path / "killed").exists()
    for folder, said in ((part, "unfinished index"), (tmp_path / "killed", "no such folder")):
        line = ran("search", str(folder), "words", expected=2).stderr
        assert said in line and line.count("\n") == 1
    ran(*given, "--out", str(tmp_path / "killed"))
    ran(*given, "--out", str(tmp_path / "whole"))
    assert not part.exists()
    for path in sorted((tmp_path / "whole").rglob("*")):
        twin = tmp_path / "killed" / path.relative_to(tmp_path / "whole")
        assert twin.is_dir() if path.is_dir() else twin.read_bytes() == path.read_bytes()
    again = ran(*given, "--out", str(tmp_path / "killed"))
    assert "passages" in again.stdout

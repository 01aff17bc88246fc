"""Whole runs of which one process is killed with SIGKILL: a clean stop, and a resume to the end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from whale_core.errors import EngineError, TrainerError

pytestmark = pytest.mark.cluster

PROGRAM = Path(__file__).with_name("killed_run.py")
PATIENCE = 400.0  # seconds
CASES = {  # what is killed: its name, the engine, the exit code, what the line says
    "actor": ("ray::RSFTActor", "transformers", TrainerError.exit_code, "trainer actor"),
    "head": ("gcs_server", "transformers", TrainerError.exit_code, "Ray's head"),
    "replica": ("VLLM::", "vllm", EngineError.exit_code, "vLLM server"),
}


def lines(folder: Path) -> list[dict[str, Any]]:
    """Return the journal so far."""
    path = folder / "journal.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def steps(folder: Path) -> list[int]:
    """Return the weight steps that the journal has."""
    return [line["step"] for line in lines(folder) if line.get("event") == "weight_step"]


def start(folder: Path, engine: str, output: Path) -> subprocess.Popen[bytes]:
    with output.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, str(PROGRAM), str(folder), engine],
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def victim(run: subprocess.Popen[bytes], name: str) -> psutil.Process:
    """Return a process below ``run`` that is called ``name``."""
    for process in psutil.Process(run.pid).children(recursive=True):
        called = [process.name(), *process.cmdline()[:1]]
        if any(name in Path(each).name for each in called):
            return process
    raise AssertionError(f"no {name} below the run")


@pytest.mark.parametrize("case", CASES)
def test_a_killed_process_stops_the_run_and_it_resumes(case: str, tmp_path: Path) -> None:
    name, engine, code, said = CASES[case]
    folder, output = tmp_path / "run", tmp_path / "output"
    run = start(folder, engine, output)
    try:
        until = time.monotonic() + PATIENCE
        while len(steps(folder)) < 2:
            assert run.poll() is None and time.monotonic() < until, output.read_text()
            time.sleep(0.05)
        below = psutil.Process(run.pid).children(recursive=True)
        victim(run, name).kill()
        assert run.wait(PATIENCE) == code, output.read_text()
    finally:
        run.kill()
    last = output.read_text().splitlines()[-1]
    assert said in last and "resume" in last
    _, alive = psutil.wait_procs(below, timeout=60)
    assert not alive, f"left: {alive}"

    before = steps(folder)
    assert start(folder, engine, output).wait(PATIENCE) == 0, output.read_text()
    done = steps(folder)
    assert done[: len(before)] == before
    assert sorted(set(done)) == list(range(1, 7)) and done[-1] == 6
    assert (folder / "result.json").exists()

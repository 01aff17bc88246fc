"""``benchmarks/gpu.sh``: its arguments, and that it goes on after a part that fails.

What the parts measure needs a GPU. The dry run of all of them is a test of the cluster lane.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/gpu.sh"
PARTS = ["gradients", "engines", "step", "rollouts"]

# Stands for a Python that has all modules and one GPU, and in which some parts fail.
PYTHON = """#!/bin/sh
case "$*" in
  *find_spec*) echo $FAKE_LACKS ;;
  *device_count*) echo ${FAKE_GPUS:-1} ;;
  *measure_gradients*) echo "$@" >> $CALLS; exit 3 ;;
  *gpu_rollouts*) echo "$@" >> $CALLS; exit 124 ;;
  *) echo "$@" >> $CALLS; for file; do :; done; echo '{}' > $file ;;
esac
"""


def script(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(SCRIPT), *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=3600)


@pytest.fixture
def python(tmp_path: Path) -> Path:
    file = tmp_path / "python"
    file.write_text(PYTHON)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    for name in ("nvcc", "ninja", "c++"):
        (tmp_path / name).symlink_to("/bin/true")
    return file


def run(python: Path, *arguments: str, **more: str) -> tuple[int, str, list[str], dict[str, str]]:
    """Return exit code, what was said, the parts' commands, and the summary's statuses."""
    folder = python.parent
    calls = folder / "calls"
    path = f"{folder}:{os.environ['PATH']}"
    given = ("--python", str(python), "--output", str(folder / "out"), *arguments)
    done = script(*given, CALLS=str(calls), PATH=path, **more)
    summary = json.loads((folder / "out/summary.json").read_text())
    statuses = {part["part"]: part["status"] for part in summary["parts"]}
    made = calls.read_text().splitlines() if calls.exists() else []
    return done.returncode, done.stdout, made, statuses


def test_the_parts_fit_into_eight_minutes() -> None:
    done = script("--list")
    found = re.findall(r"^(\w+) +(\d+) s  \S", done.stdout, re.M)
    assert done.returncode == 0 and [name for name, _ in found] == PARTS
    assert sum(int(seconds) for _, seconds in found) < 8 * 60


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--nonsense"], "--nonsense: no such option"),
        (["--only"], "--only needs a value"),
        (["--only", "step,flying"], "--only flying: no such part; there are gradients engines"),
        (["--python", "/nowhere/python"], "--python /nowhere/python: no such program"),
    ],
)
def test_a_wrong_argument_is_one_line(arguments: list[str], said: str) -> None:
    done = script(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_a_part_that_fails_does_not_keep_the_others(python: Path) -> None:
    code, said, calls, statuses = run(python, FAKE_GPUS="4")
    assert code == 1
    assert statuses == {
        "gradients": "failed with exit code 3",
        "engines": "measured",
        "step": "measured",
        "rollouts": "took too long",
    }
    assert len(calls) == 4 and "--ranks 1 2 4" in calls[0] and "--device cuda" in calls[1]
    assert {each.name for each in (python.parent / "out").glob("*.json")} == {
        "engines.json",
        "step.json",
        "summary.json",
    }
    assert "engines: measured" in said


def test_only_some_parts_on_one_gpu(python: Path) -> None:
    code, _, calls, statuses = run(python, "--only", "step,engines")
    assert code == 0 and len(calls) == 2 and set(statuses.values()) == {"measured"}
    assert "gpu_step.py" in calls[0]
    run(python, "--only", "gradients")
    assert "--ranks 1 --output" in (python.parent / "calls").read_text()


def test_what_lacks_is_said_before_and_fails_the_part(python: Path) -> None:
    code, said, calls, statuses = run(python, "--only", "step", FAKE_LACKS="transformers")
    assert code == 1 and not calls
    assert "step cannot run here; it lacks: transformers" in said
    assert statuses == {"step": "lacks transformers"}
    code, said, calls, statuses = run(python, "--only", "step", FAKE_GPUS="0")
    assert code == 1 and statuses == {"step": "lacks a-GPU-that-torch-sees"}


def test_a_dry_run_leaves_out_what_lacks_and_is_on_the_cpu(python: Path) -> None:
    code, _, calls, statuses = run(python, "--dry-run", "--only", "step", FAKE_LACKS="torch")
    assert code == 0 and not calls and statuses == {"step": "lacks torch"}
    code, _, calls, _ = run(python, "--dry-run", "--only", "engines,step", FAKE_GPUS="0")
    assert code == 0 and "--device cpu" in calls[1] and "cuda" not in " ".join(calls)


def test_the_check_runs_nothing(python: Path) -> None:
    done = script("--check", "--dry-run", "--python", str(python), FAKE_LACKS="")
    assert (done.returncode, done.stdout) == (0, "all that is needed is there\n")
    assert script("--check", "--dry-run", "--python", str(python), FAKE_LACKS="ray").returncode == 1


@pytest.mark.cluster
def test_every_part_runs_on_a_cpu(tmp_path: Path) -> None:
    done = script("--dry-run", "--python", sys.executable, "--output", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["dry_run"] is True and summary["gpus"] == 0
    assert [(p["part"], p["status"]) for p in summary["parts"]] == [(p, "measured") for p in PARTS]
    for part in PARTS:
        assert json.loads((tmp_path / f"out/{part}.json").read_text())

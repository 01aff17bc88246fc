"""``whale compare`` over sets in processes of their own: killed, continued, refused, capped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_kit import blocks_of, result_of, timeless

Whale = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.slow

# A search with the toy domain and without a model: seconds, and long enough to be killed in.
SETTINGS = (
    *("domain=toy", "verifier=toy", "engine=null-model", "model_update=null"),
    *("scheduler=harness-only", "scheduler.iterations=2", "harness=first-listed-letter"),
    *("harness_search.candidates=1", "search.examples=16"),
    *("selection.examples=8", "selection.draws=1"),
    *("test.examples=16", "test.draws=2"),
)
SETS = ("harness-only", "fst")
WAIT_SECONDS = 600.0


def command(folder: Path, *more: str) -> list[str]:
    return ["compare", *SETS, "--seeds", "0,1", "--dir", str(folder), *SETTINGS, *more]


def started(program: str, state: Path, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [program, *command(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "WHALE_STATE": str(state)},
    )


def test_killed_anywhere_it_goes_on_and_ends_as_if_it_had_not_been(
    whale: Whale, program: str, state: Path, tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    done = whale(*command(whole, "--jobs", "2"), timeout=1200)
    assert done.returncode == 0, done.stderr
    assert "harness-only" in done.stdout and "run 4 of 4" in done.stderr
    made = json.loads((whole / "comparison.json").read_text())
    assert [each["name"] for each in made["conditions"]] == list(SETS)
    assert all(len(each["seeds"]) == 2 for each in made["conditions"])
    assert {run["phases"] for run in made["runs"]} == {"H2"}
    for name in ("harness-only-0", "fst-1"):  # within the first run, then within the last
        process = started(program, state, killed)
        wait_for(process, killed / name / "journal.jsonl", "rollouts")
        children = children_of(process.pid)
        assert children
        process.send_signal(signal.SIGKILL)
        process.communicate()
        end = time.monotonic() + WAIT_SECONDS
        while any(parent_of(child) is not None for child in children):
            assert time.monotonic() < end, "the run's own process outlives the comparison's"
            time.sleep(0.02)
    other = whale(*command(killed, "search.draws=2"))
    assert other.returncode == 4 and "is of another comparison: settings" in other.stderr
    again = whale(*command(killed), timeout=1200)
    assert again.returncode == 0, again.stderr
    assert "3 of 4 runs are finished already" in again.stderr
    assert "fst with seed 1: continued where it was" in again.stderr
    for name in ("harness-only-0", "harness-only-1", "fst-0", "fst-1"):
        assert timeless(blocks_of(killed / name)) == timeless(blocks_of(whole / name))
        assert timeless(result_of(killed / name)) == timeless(result_of(whole / name))
    now = json.loads((killed / "comparison.json").read_text())
    assert now["differences"] == made["differences"]
    assert now["test_examples"] == made["test_examples"]
    shutil.rmtree(killed / "harness-only-0")  # its record stands for it
    once_more = whale(*command(killed, "--json"))
    assert "4 of 4 runs are finished already" in once_more.stderr
    assert json.loads(once_more.stdout)["differences"] == made["differences"]


def test_the_budget_stops_what_would_pass_it_and_says_so(whale: Whale, tmp_path: Path) -> None:
    done = whale(*command(tmp_path / "c", "--budget", "rollouts=60"), timeout=1200)
    assert done.returncode == 5
    assert "4 of 4 runs have no result: cap.rollouts=63 is reached" in done.stderr
    made: dict[str, Any] = json.loads((tmp_path / "c" / "comparison.json").read_text())
    for condition in made["conditions"]:
        assert condition["budget"]["matched"] is False and condition["mean"] is None
        assert [run["state"] for run in condition["unfinished"]] == ["stopped", "stopped"]
    assert all(run["spent"]["rollouts"] <= 63 for run in made["runs"])
    assert "no result" in done.stdout and "above" in done.stdout


def test_ctrl_c_stops_it_resumable(whale: Whale, program: str, state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    process = started(program, state, folder)
    wait_for(process, folder / "harness-only-0" / "journal.jsonl", "rollouts")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 130 and f"the same command with --dir {folder}" in said
    told = json.loads(whale("status", str(folder / "harness-only-0"), "--json").stdout)
    assert told["state"] in ("stopped", "finished")


def wait_for(process: subprocess.Popen[str], path: Path, word: str) -> None:
    """Wait until ``word`` stands in the file at ``path``, which ``process`` makes."""
    end = time.monotonic() + WAIT_SECONDS
    while not (path.is_file() and word in path.read_text()):
        if process.poll() is not None:
            raise AssertionError(f"it ended too early: {process.communicate()[1]}")
        assert time.monotonic() < end, f"{path} never had {word}"
        time.sleep(0.02)


def children_of(parent: int) -> list[int]:
    """Return the processes that ``parent`` started."""
    numbers = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [number for number in numbers if parent_of(number) == parent]


def parent_of(process: int) -> int | None:
    """Return the process that a running one belongs to; None of one that has ended."""
    try:
        state, parent = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else int(parent)  # a zombie: nobody has asked for its end yet

"""kill -9 at any moment: the continued run is the run that was never interrupted.

The controller is killed from outside, several times in one run, at seeded moments in every kind of
block. Nothing committed may be made again, charged again or changed.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from resume_kit import (
    SMALL,
    assert_same,
    command,
    finish,
    kill,
    moments,
    resealed,
    wait_for_block,
)
from run_kit import blocks_of, journal_of


def committed_bytes(folder: Path) -> dict[str, bytes]:
    """Return what the newest journal line has committed, file by file."""
    lengths = blocks_of(folder)[-1]["lengths"] if blocks_of(folder) else {}
    return {name: (folder / name).read_bytes()[:length] for name, length in lengths.items()}


def run_with_kills(
    folder: Path, state: Path, kills: list[tuple[int, float]], seeds: tuple[str, ...] = ("0",)
) -> int:
    """Run to the end through all ``kills``; return how many of them met a living process."""
    met = 0
    arguments = ["run", *SMALL, "--run-dir", str(folder)]
    safe: list[dict[str, bytes]] = []
    for number, (blocks, later) in enumerate(sorted(kills)):
        process = command(arguments, state, seeds[number % len(seeds)])
        if wait_for_block(process, folder, blocks):
            time.sleep(later)
            met += process.poll() is None
        kill(process)
        safe.append(committed_bytes(folder))
        if blocks_of(folder):
            arguments = ["resume", str(folder)]
    process = command(arguments, state, seeds[len(kills) % len(seeds)])
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    for files in safe:
        for name, before in files.items():
            assert (folder / name).read_bytes().startswith(before), f"{name} was written again"
    return met


def in_chains(small: Path, seed: int, count: int, length: int) -> list[Any]:
    points = moments(small, seed, count)
    return [points[i : i + length] for i in range(0, count, length)]


@pytest.mark.parametrize("chain", range(2))
def test_eight_kills(chain: int, small: Path, state: Path, tmp_path: Path) -> None:
    """The hash seed differs in every process of a chain."""
    kills = in_chains(small, 1, 8, 4)[chain]
    met = run_with_kills(tmp_path / "run", state, kills, ("0", "1"))
    assert met >= 3  # the last blocks are short: a run may end before it is killed
    assert_same(tmp_path / "run", small)


@pytest.mark.slow
def test_sixty_kills(small: Path, state: Path, tmp_path: Path) -> None:
    chains = in_chains(small, 2, 60, 4)
    met = 0
    for number, kills in enumerate(chains):
        folder = tmp_path / str(number)
        met += run_with_kills(folder, state, kills, ("0", "1"))
        assert_same(folder, small)
    print(f"{met} of 60 kills met a living run")
    assert met >= 50


def test_a_kill_while_a_checkpoint_is_written(small: Path, state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = command(["run", *SMALL, "--run-dir", str(folder)], state)
    while process.poll() is None and not list(folder.glob("weights/.step-*.part")):
        time.sleep(0.0005)
    kill(process)
    assert not [block for block in blocks_of(folder) if block["event"] == "checkpoint"]
    finish(folder, state)
    assert_same(folder, small)


@pytest.mark.parametrize("event", ["weight_step", "phase_done"])
def test_a_record_that_does_not_follow_is_refused(
    event: str, small: Path, state: Path, tmp_path: Path
) -> None:
    """Replayed steps are compared with the record: other arithmetic never goes unnoticed."""
    folder = tmp_path / "run"
    process = command(["run", *SMALL, "--run-dir", str(folder)], state)
    first = next(i for i, b in enumerate(blocks_of(small)) if b["event"] == "weight_step")
    assert wait_for_block(process, folder, first + 1)
    kill(process)
    journal = folder / "journal.jsonl"
    lines = journal_of(folder)
    field = {"weight_step": "weights_id", "phase_done": "harness_id"}[event]
    changed = next(line for line in lines if line.get("event") == event)
    changed[field] = "0" * 16
    journal.write_bytes(resealed(lines))
    process = command(["resume", str(folder)], state)
    _, errors = process.communicate()
    assert process.returncode == 4, errors
    assert len(errors.strip().splitlines()) == 1
    assert {"weight_step": "weights_id", "phase_done": "accepted"}[event] in errors

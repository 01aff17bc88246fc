"""A run that trains under a mixture of harnesses, killed and continued."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from resume_kit import SMOKE, assert_same, command, finish, kill, wait_for_block
from run_kit import blocks_of

from whale_core.run.archive import read_archive

FEW = ("search.examples=8", "selection.examples=8", "test.examples=8", "test.draws=1")
MIXED = (*SMOKE, *FEW, "model_update.harness_mixture=2")


@pytest.mark.slow
def test_a_killed_run_goes_on_under_the_same_harnesses(state: Path, tmp_path: Path) -> None:
    reference = tmp_path / "reference"
    process = command(["run", *MIXED, "--run-dir", str(reference)], state)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    blocks = blocks_of(reference)
    places = [i for i, block in enumerate(blocks) if block["event"] == "harness_mixture"]
    assert len(places) == 3  # the steps of the second cycle: before, nothing was searched
    chosen = {name for place in places for name in blocks[place]["harnesses"]}
    assert len(chosen) == 2 and chosen <= {
        entry.id for entry in read_archive(reference / "harnesses")
    }

    folder = tmp_path / "run"
    arguments = ["run", *MIXED, "--run-dir", str(folder)]
    for place in places:
        process = command(arguments, state)
        assert wait_for_block(process, folder, place + 1)
        time.sleep(0.05)
        kill(process)
        arguments = ["resume", str(folder)]
    finish(folder, state)
    assert_same(folder, reference)

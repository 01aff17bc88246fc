"""kill -9 in a weight phase whose length is open: the rule goes on with what it had seen.

The phase's signals come back from the journal: those up to the last checkpoint by themselves, those
after it as the steps are trained again. A rule that began anew would end the phase later.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from resume_kit import SMOKE, assert_same, command, finish, kill, wait_for_block
from run_kit import blocks_of

# 8 steps to the epoch, so n = 2: a weight phase has at least 3 steps.
RUN = (
    *("run", *SMOKE, "scheduler=patience", "scheduler.total_epochs=1.25", "checkpoint_steps=2"),
    *("scheduler.min_iterations=2", "scheduler.patience_iterations=1"),
    *("search.examples=8", "selection.examples=4", "test.examples=4", "test.draws=1"),
    *("harness_search.candidates=1", "model_update.group_size=4", "domain.harness=16"),
)


@pytest.fixture(scope="module")
def whole(state: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("patience") / "run"
    process = command([*RUN, "--run-dir", str(folder)], state)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    return folder


def test_kills_in_an_open_weight_phase(whole: Path, state: Path, tmp_path: Path) -> None:
    steps = [
        index
        for index, block in enumerate(blocks_of(whole), start=1)
        if block["event"] == "weight_step" and block["phase"] == 1
    ]
    assert len(steps) >= 3
    folder = tmp_path / "run"
    arguments = [*RUN, "--run-dir", str(folder)]
    for blocks in (steps[0], steps[-2] + 1):  # before any checkpoint; just before the phase ends
        process = command(arguments, state)
        met = wait_for_block(process, folder, blocks)
        kill(process)
        assert met
        assert not [block for block in blocks_of(folder)[1:] if block["event"] == "phase_done"][1:]
        arguments = ["resume", str(folder)]
    finish(folder, state)
    assert_same(folder, whole)

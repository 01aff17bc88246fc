"""Reading a run's status from its folder: states, position, what is spent, damage."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from whale_core.errors import RunFolderError
from whale_core.run import status
from whale_core.run.folder import LEDGER, RunFolder
from whale_core.run.ledger import Charge, Ledger
from whale_core.run.status import holder, list_runs, read_status

PLAN = {
    "rollouts": {"least": 100, "most": 400},
    "phases": [
        {"phase": 0, "cycle": 0, "kind": "start", "length": {"least": 0, "most": 0}},
        {"phase": 1, "cycle": 1, "kind": "weights", "length": {"least": 3, "most": 3}},
        {"phase": 2, "cycle": 1, "kind": "harness", "length": {"least": 2, "most": 9}},
        {"phase": 3, "cycle": 1, "kind": "final", "length": {"least": 0, "most": 0}},
    ],
}


def phase_done(folder: RunFolder, phase: int, kind: str, cycle: int, mean: float) -> None:
    folder.commit(
        "phase_done",
        phase=phase,
        kind=kind,
        cycle=cycle,
        harness="h0001",
        selection={"mean": mean},
    )


def rolled_out(folder: RunFolder, ledger: Ledger, purpose: str, rollouts: int) -> None:
    charge = Charge(
        "policy", purpose, 1, 1, rollouts=rollouts, prompt_tokens=50, sampled_tokens=5, usd=0.5
    )
    folder.append(LEDGER, [ledger.charge(charge)])
    folder.commit("rollouts", phase=1, purpose=purpose, rollouts=rollouts, asked="")


@pytest.fixture
def open_run(tmp_path: Path) -> Iterator[RunFolder]:
    """A run in its first weight phase, one step done and the next one's rollouts made."""
    folder = RunFolder.create(tmp_path / "runs" / "one")
    ledger = Ledger()
    (folder.path / "config.yaml").write_text("cap: {rollouts: 900, usd: 0.0}\n")
    (folder.path / "plan.json").write_text(json.dumps(PLAN))
    folder.commit("run_started", run="x")
    rolled_out(folder, ledger, "select", 20)
    phase_done(folder, 0, "start", 0, 0.25)
    rolled_out(folder, ledger, "train", 30)
    folder.commit("weight_step", phase=1, reward=0.5)
    rolled_out(folder, ledger, "train", 30)
    yield folder
    folder.close()


def test_a_running_run(open_run: RunFolder) -> None:
    found = read_status(open_run.path)
    assert (found.state, found.pid) == ("running", os.getpid())
    position = found.position
    assert position is not None
    assert (position.phase, position.phases, position.cycle) == (1, 3, 1)
    assert (position.kind, position.done, position.planned) == ("weights", 1, 3)
    assert position.since == {"train": 30}
    assert found.signals == (0.5,) and found.selection == (0.25,) and found.steps == 1
    assert found.spent["rollouts"] == 80 and found.spent["tokens"] == 165
    assert found.spent["usd"] == 1.5
    assert found.caps == {"rollouts": 900}
    assert found.planned_rollouts == 400
    later = read_status(open_run.path, now=time.time() + 100)
    assert later.idle_seconds >= 100 and later.seconds >= 100
    assert later.left_seconds == pytest.approx(later.seconds * 320 / 80)


def test_a_half_written_line_is_not_there_yet(open_run: RunFolder) -> None:
    before = read_status(open_run.path)
    with (open_run.path / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"event": "weight_step", "phase": 1, "rew')
    with (open_run.path / LEDGER).open("ab") as ledger:
        ledger.write(b'{"role": "poli')
    size = (open_run.path / "journal.jsonl").stat().st_size
    after = read_status(open_run.path)
    assert (after.position, after.spent) == (before.position, before.spent)
    assert (open_run.path / "journal.jsonl").stat().st_size == size  # nothing was mended


def test_reading_neither_takes_nor_needs_the_lock(open_run: RunFolder, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in open_run.path.rglob("*")}
    assert read_status(open_run.path).state == "running"
    open_run.close()
    assert read_status(open_run.path).state == "killed"
    assert {path: path.stat().st_mtime_ns for path in open_run.path.rglob("*")} == before
    RunFolder.open(open_run.path).close()  # nobody holds the lock


def test_stopped_says_why_until_it_is_continued(open_run: RunFolder) -> None:
    open_run.note("stopped", why="cap.rollouts=80 is reached")
    open_run.close()
    found = read_status(open_run.path)
    assert (found.state, found.reason) == ("stopped", "cap.rollouts=80 is reached")
    assert found.left_seconds is not None and found.pid is None
    again = RunFolder.open(open_run.path)
    again.note("resumed", at=1.0, cap={"rollouts": 0, "tokens": 7, "usd": 0.0, "seconds": 0.0})
    assert read_status(open_run.path).state == "running"
    again.close()
    found = read_status(open_run.path)
    assert found.state == "killed"
    assert found.caps == {"tokens": 7}
    assert found.notices[0].startswith("stopped why cap.rollouts=80")


def test_phases_of_open_length_and_the_final_pass(open_run: RunFolder) -> None:
    phase_done(open_run, 1, "weights", 1, 0.5)
    position = read_status(open_run.path).position
    assert position is not None
    assert (position.phase, position.kind, position.cycle) == (2, "harness", 1)
    assert (position.done, position.planned) == (0, None)  # from 2 to 9 iterations
    open_run.commit("search_iteration", phase=2, best=0.75)
    assert read_status(open_run.path).signals == (0.5, 0.75)
    phase_done(open_run, 2, "harness", 1, 0.5)
    open_run.commit("decision", chosen=2)
    position = read_status(open_run.path).position
    assert position is not None and (position.kind, position.phase) == ("final", 3)


def test_without_a_plan_only_the_estimate_is_missing(open_run: RunFolder) -> None:
    (open_run.path / "plan.json").unlink()
    found = read_status(open_run.path)
    assert found.planned_rollouts is None and found.left_seconds is None
    assert found.position is not None
    assert (found.position.kind, found.position.cycle) == ("weights", 1)


def test_a_finished_run_has_its_result(open_run: RunFolder) -> None:
    (open_run.path / "result.json").write_text('{"sentence": "done"}')
    open_run.commit("run_done", seconds=3.0)
    found = read_status(open_run.path)  # its process has not ended yet
    assert (found.state, found.position, found.left_seconds) == ("finished", None, None)
    assert found.result == {"sentence": "done"}


def test_a_run_that_is_being_set_up(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run")
    assert read_status(folder.path).state == "starting"
    folder.close()
    with pytest.raises(RunFolderError, match="never began"):
        read_status(folder.path)


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="not a run folder"):
        read_status(tmp_path)


def test_the_list_shows_damaged_runs_too(open_run: RunFolder) -> None:
    runs = open_run.path.parent
    damaged = runs / "damaged"
    damaged.mkdir()
    (damaged / "journal.jsonl").write_text("{}\n")
    (runs / "no-run").mkdir()
    assert [(Path(each.run).name, each.state) for each in list_runs(runs)] == [
        ("damaged", "damaged"),
        ("one", "running"),
    ]
    assert list_runs(runs / "absent") == []


def test_the_holder_of_a_lock_in_another_process(tmp_path: Path) -> None:
    lock = tmp_path / ".lock"
    code = (
        "import fcntl, sys; file = open(sys.argv[1], 'a'); fcntl.flock(file, fcntl.LOCK_EX);"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert holder(lock) == process.pid
        process.communicate(b"")
    assert holder(lock) is None
    with lock.open("a") as file:  # it was never taken by looking
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_where_locks_are_not_listed_nothing_is_claimed(
    open_run: RunFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(status, "LOCKS", tmp_path / "absent")
    found: Any = read_status(open_run.path)
    assert (found.state, found.pid) == ("unknown", None)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("plan.json", '{"a": 1}'),
        ("plan.json", '{"rollouts": {"most": "x"}, "phases": []}'),
        ("plan.json", '{"rollouts": {"most": 1}, "phases": 3}'),
        ("config.yaml", "cap: {rollouts: many}"),
    ],
)
def test_a_file_of_another_shape_is_told_and_hides_no_other_run(
    file: str, text: str, open_run: RunFolder, tmp_path: Path
) -> None:
    open_run.commit("weight_step", reward=0.25)
    other = RunFolder.create(tmp_path / "runs" / "two")
    other.commit("run_started", run="y")
    other.close()
    (open_run.path / file).write_text(text)
    with pytest.raises(RunFolderError, match="cannot be read: a file of it is not as a run writes"):
        read_status(open_run.path)
    assert [each.state for each in list_runs(tmp_path / "runs")] == ["damaged", "killed"]


def test_a_lost_ledger_is_damage_not_a_run_without_costs(open_run: RunFolder) -> None:
    rolled_out(open_run, Ledger(), "train", 8)
    (open_run.path / LEDGER).unlink()
    with pytest.raises(RunFolderError, match="is missing"):
        read_status(open_run.path)

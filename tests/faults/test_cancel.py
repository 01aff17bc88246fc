"""Ctrl-C once, twice, and a controller that is killed: what stops, and what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import warm_kit
from resume_kit import PROGRAM, SMALL, assert_same, finish, kill, wait_for_block
from run_kit import blocks_of, journal_of


def processes_of(session: int) -> dict[int, str]:
    """Return the living processes that were started below a session's leader, with their names."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                name, rest = (folder / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            except OSError:
                continue  # it ended meanwhile
            if rest.split()[0] != "Z":
                parents[int(folder.name)] = int(rest.split()[1])
                names[int(folder.name)] = name
    found = {session} & parents.keys()
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid: names[pid] for pid in found}


def assert_gone(pids: dict[int, str], within: float = 3.0) -> None:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        alive = {pid for pid in pids if Path(f"/proc/{pid}").exists() and not zombie(pid)}
        if not alive:
            return
        time.sleep(0.02)
    raise AssertionError({pid: pids[pid] for pid in alive})


def zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def group_of(pid: int) -> int | None:
    """Return a process's group, None if it has ended."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


class Run:
    """A run with a temporary folder of its own."""

    def __init__(self, where: Path, state: Path) -> None:
        self.folder, self.temporary = where / "run", where / "tmp"
        self.temporary.mkdir()
        self.process = warm_kit.start(
            ["run", *SMALL, "--run-dir", str(self.folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "WHALE_STATE": str(state), "TMPDIR": str(self.temporary)},
        )

    def wait_for_jails(self) -> dict[int, str]:
        """Wait until harnesses are running; return all processes of the run."""
        while self.process.poll() is None:
            found = processes_of(self.process.pid)
            if len(found) > 3:
                return found
            time.sleep(0.005)
        raise AssertionError(self.process.communicate())

    def assert_nothing_left(self, pids: dict[int, str]) -> None:
        assert_gone(pids)
        left = [path.name for path in self.temporary.iterdir()]
        assert [name for name in left if not name.startswith("torchinductor_")] == []  # torch's own


@pytest.fixture
def run(state: Path, tmp_path: Path) -> Run:
    made = Run(tmp_path, state)
    assert wait_for_block(made.process, made.folder, 4)
    return made


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_once_finishes_the_block(
    number: signal.Signals, run: Run, small: Path, state: Path
) -> None:
    pids = run.wait_for_jails()
    reached = {pid for pid in pids if group_of(pid) == run.process.pid}
    assert reached == {run.process.pid}  # a jail that the signal ends would only be made again
    before = len(blocks_of(run.folder))
    os.killpg(run.process.pid, number)  # as a terminal does: to all of the group
    output, errors = run.process.communicate(timeout=60)
    assert run.process.returncode == 130
    assert "stopping when this block is done" in output
    assert "whale resume" in errors and len(errors.strip().splitlines()) == 1
    assert before < len(blocks_of(run.folder)) <= before + 2
    run.assert_nothing_left(pids)
    finish(run.folder, state)
    assert_same(run.folder, small)


def test_twice_stops_at_once(run: Run, small: Path, state: Path) -> None:
    pids = run.wait_for_jails()
    os.killpg(run.process.pid, signal.SIGINT)
    time.sleep(0.01)
    os.killpg(run.process.pid, signal.SIGINT)
    sent = time.monotonic()
    output, errors = run.process.communicate(timeout=60)
    assert time.monotonic() - sent < 5.0
    assert run.process.returncode == 130
    assert f"whale resume {run.folder}" in output + errors
    assert "Traceback" not in errors
    run.assert_nothing_left(pids)
    finish(run.folder, state)
    assert_same(run.folder, small)


def test_a_killed_controller_leaves_nothing(run: Run) -> None:
    pids = run.wait_for_jails()
    kill(run.process)
    run.assert_nothing_left(pids)


def test_a_reader_that_goes_away_does_not_stop_the_run(state: Path, tmp_path: Path) -> None:
    """``whale run … | head -1``: the output is gone, the work is not."""
    folder = tmp_path / "run"
    script = f"{PROGRAM} run {' '.join(SMALL)} --run-dir {folder} 2>&1 | head -1"
    subprocess.run(
        ["bash", "-c", script], env={**os.environ, "WHALE_STATE": str(state)}, check=True
    )
    deadline = time.monotonic() + 120
    while not (folder / "result.json").is_file() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert journal_of(folder)[-1].get("event") in ("run_done", "evaluation", "null_check")
    assert (folder / "result.json").is_file()

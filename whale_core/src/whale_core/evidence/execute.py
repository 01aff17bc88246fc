"""Works off the runs of a comparison: each an ordinary ``whale run`` in a process of its own.

What is there already is not repeated: a finished run stands, also where no more than its record is
left of it, a half-done one is resumed from its own journal, and one that never began begins anew.
So a comparison can be killed anywhere.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import define, frozen

from whale_core.errors import Interrupted, RunFolderError, WhaleError
from whale_core.evidence.kept import keep, kept
from whale_core.evidence.plan import ComparisonPlan, PlannedRun
from whale_core.records import Json
from whale_core.run.folder import LOCK
from whale_core.run.journal import JOURNAL
from whale_core.run.status import holder, read_status

LOG = ".log"  # beside each run's folder: what its process printed
POLL_SECONDS = 0.1
SIGNALS = (signal.SIGINT, signal.SIGTERM)
CAPPED = "capped"
Say = Callable[[str], None]


@frozen
class Ended:
    """How the work on a run ended: its process's exit code, and what it said last."""

    code: int
    reason: str = ""


def count_rollouts(plan: ComparisonPlan, say: Say) -> ComparisonPlan:
    """Return the plan with what a run of each condition will make; each is built once for that.

    Raises:
        WhaleError: a condition cannot be run, with the exit code that ``whale plan`` gave.
    """
    for condition in plan.conditions:
        say(f"planning {condition.name}")
        words = ("plan", "--plugin-set", condition.name, "--no-calibration", "--json")
        done = subprocess.run(
            _command((*words, *plan.arguments)), capture_output=True, text=True, check=False
        )
        if done.returncode:
            error = WhaleError(f"{condition.name}: {_last_error(done.stderr)}")
            error.exit_code = done.returncode
            raise error
        planned: dict[str, Json] = json.loads(done.stdout)["plan"]["rollouts"]
        plan = plan.counted(condition.name, planned)
    return plan


def execute(runs: Sequence[PlannedRun], say: Say, jobs: int = 1) -> dict[int, Ended]:
    """Work the runs off, ``jobs`` at a time in the order given; return by number how those ended
    that had not been finished before.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; the runs were stopped, resumable.
        RunFolderError: another process works on one of the runs.
    """
    due = [(run, state) for run in runs if (state := standing(run.folder)) != "finished"]
    if len(due) < len(runs):
        say(f"{len(runs) - len(due)} of {len(runs)} runs are finished already")
    waiting = [(run, state) for run, state in due if state != CAPPED]
    ended = {
        run.number: Ended(5, read_status(run.folder).reason)
        for run, state in due
        if state == CAPPED
    }
    active: list[_Working] = []
    before = [signal.signal(number, _interrupt) for number in SIGNALS]
    try:
        while waiting or active:
            while waiting and len(active) < jobs:
                run, state = waiting.pop(0)
                say(f"run {run.number} of {len(runs)}, {_name(run)}: {_BEGINS[state]}")
                active.append(_Working.start(run, state))
            for worker in [each for each in active if each.process.poll() is not None]:
                active.remove(worker)
                ended[worker.run.number] = worker.ended()
                say(
                    f"run {worker.run.number} of {len(runs)}, {_name(worker.run)}: "
                    f"{worker.outcome()}"
                )
                if ended[worker.run.number].code == Interrupted.exit_code:
                    raise KeyboardInterrupt
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        _stop(active, say)
        raise Interrupted("the comparison was stopped; the same command continues it") from None
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)
    return ended


_BEGINS = {"new": "started", "resume": "continued where it was"}


def standing(folder: Path) -> str:
    """Return ``new``, ``resume``, ``finished`` or ``capped`` for a run's folder.

    A run whose record was kept is ``finished``, its folder may be gone. A folder in which a run
    never began is removed.

    Raises:
        RunFolderError: another process works on it, or it is damaged.
    """
    if kept(folder) is not None:
        return "finished"
    lock = folder / LOCK
    if not _has_begun(folder):
        if lock.is_file() and holder(lock):
            raise RunFolderError(f"{folder}: the process {holder(lock)} has just begun it: wait")
        if folder.exists():
            shutil.rmtree(folder)
        return "new"
    status = read_status(folder)
    if status.state == "running":
        raise RunFolderError(
            f"{folder}: the process {status.pid} works on it: wait for it or stop it"
        )
    if status.state == "stopped" and status.reason.startswith("cap."):
        return CAPPED
    return "finished" if status.state == "finished" else "resume"


def _has_begun(folder: Path) -> bool:
    """Return whether the journal has a whole line."""
    try:
        with (folder / JOURNAL).open("rb") as file:
            return file.readline().endswith(b"\n")
    except FileNotFoundError:
        return False


@define
class _Working:
    """A run's process, and from where on its log is of this process."""

    run: PlannedRun
    process: subprocess.Popen[bytes]
    log_start: int
    began: float

    @classmethod
    def start(cls, run: PlannedRun, state: str) -> _Working:
        """Start or resume the run. Its own session: the terminal's Ctrl-C reaches it through us."""
        if state == "new":
            words: tuple[str, ...] = ("run", *run.arguments, "--run-dir", str(run.folder))
        else:
            words = ("resume", str(run.folder))
        with _log(run).open("ab") as log:
            start = log.seek(0, os.SEEK_END)
            process = subprocess.Popen(
                _command(words),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(run, process, start, time.monotonic())

    def ended(self) -> Ended:
        """Return how the process ended."""
        code = self.process.returncode
        if code == 0:
            return Ended(0)
        with _log(self.run).open("rb") as log:
            log.seek(self.log_start)
            said = _last_error(log.read().decode(errors="replace"))
        if code < 0:
            said = f"its process was ended by signal {-code}"
        return Ended(code if code > 0 else 1, said)

    def outcome(self) -> str:
        """Say in words how the process ended; keep the record of a finished run."""
        ended = self.ended()
        if ended.code:
            kind = "stopped at its cap" if ended.code == 5 else "did not finish"
            return f"{kind}: {ended.reason}"
        record = keep(self.run.folder)
        took, rollouts = time.monotonic() - self.began, int(record.spent["rollouts"])
        mean = float(record.final["mean"])
        return f"finished in {took:.0f} s, {rollouts} rollouts, (θ, h) {100 * mean:.1f} %"


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _stop(active: Sequence[_Working], say: Say) -> None:
    """Pass Ctrl-C on: once ends each run after its block, once more at once."""
    if not active:
        return
    say("stopping each run when its block is done; once more stops at once")
    while True:
        for worker in active:
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGINT)
        try:
            for worker in active:
                worker.process.wait()
            return
        except KeyboardInterrupt:
            continue


def _command(words: Sequence[str]) -> list[str]:
    worker = "whale_core.evidence.worker"
    return [sys.executable, "-P", "-m", worker, str(os.getpid()), *words]


def _name(run: PlannedRun) -> str:
    return f"{run.condition.name} with seed {run.seed}"


def _log(run: PlannedRun) -> Path:
    return run.folder.with_name(run.folder.name + LOG)


def _last_error(text: str) -> str:
    """Return what a process said last: its error line, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("whale: ") for line in lines if line.startswith("whale: ")]
    return (errors or lines or ["it said nothing"])[-1]

"""What a run folder says of its run, read without a lock and without changing anything.

All of it is in the files that the run writes for itself: the journal (an unfinished last line is
left out), the ledger up to the length that the journal names, the plan, and the result.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml  # type: ignore[import-untyped]
from attrs import asdict, field, frozen

from whale_core.config.settings import CapSettings
from whale_core.errors import RunFolderError
from whale_core.records import Json
from whale_core.roles import begins_cycle
from whale_core.run.folder import LEDGER, LOCK, PLAN
from whale_core.run.journal import JOURNAL, Entry, read_journal
from whale_core.run.ledger import Ledger

LOCKS = Path("/proc/locks")
NOTICES = 5
UNITS = {"weight_step": "weights", "search_iteration": "harness"}


@frozen
class Position:
    """Where a run is: the phase it is in (``kind`` as in a plan), how many of its steps or
    iterations are done, of how many planned, and the rollouts by purpose since the last of them."""

    phase: int
    phases: int | None
    cycle: int
    kind: str
    done: int
    planned: int | None
    since: Mapping[str, int] = field(factory=dict)


@frozen
class Status:
    """A run's status.

    ``state`` is ``starting``, ``running`` (by the process ``pid``), ``finished``, ``stopped`` (with
    the ``reason``), ``killed``, or ``unknown`` where the system does not tell who holds a lock.
    All but the finished can be resumed. ``seconds`` is how long the run was worked on; ``idle``
    how long ago it last wrote to its journal. Signals are training rewards or an archive's best.
    """

    run: str
    state: str
    pid: int | None = None
    reason: str = ""
    position: Position | None = None
    signals: tuple[float, ...] = ()
    steps: int = 0
    selection: tuple[float, ...] = ()
    harness: str = ""
    spent: Mapping[str, float] = field(factory=dict)
    caps: Mapping[str, float] = field(factory=dict)
    seconds: float = 0.0
    idle_seconds: float = 0.0
    planned_rollouts: int | None = None
    left_seconds: float | None = None
    notices: tuple[str, ...] = ()
    result: Mapping[str, Json] | None = None

    def as_json(self) -> dict[str, Json]:
        """Return the status as plain JSON."""
        whole: dict[str, Json] = asdict(self)
        return whole


def read_status(run: Path, now: float | None = None) -> Status:
    """Return the status of the run in the folder ``run``; ``now`` is the clock, ``time.time()``.

    Raises:
        RunFolderError: it is no run folder, it is damaged, or it may not be read.
    """
    try:
        return _read(run, time.time() if now is None else now)
    except OSError as error:
        raise RunFolderError(f"{error.filename or run}: {error.strerror}") from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise RunFolderError(
            f"{run} cannot be read: a file of it is not as a run writes it ({said})"
        ) from error


def _read(run: Path, now: float) -> Status:
    lock, journal = run / LOCK, run / JOURNAL
    if not journal.is_file():
        if lock.is_file() and holder(lock):
            return Status(str(run), "starting", pid=holder(lock))
        never = ": a run that never began, delete it" if lock.is_file() else ""
        raise RunFolderError(f"{run} is not a run folder, it has no {JOURNAL}{never}")
    pid = holder(lock)  # before the journal: a run that ends in between is then seen as finished
    lines, _, _ = read_journal(journal)
    events = [line for line in lines if "event" in line]
    state, reason = _state(lines, pid)
    running = state == "running"
    idle = max(0.0, now - journal.stat().st_mtime)
    seconds = float(lines[-1]["at_seconds"]) + (idle if running else 0.0)
    plan = _json(run / PLAN)
    spent = _spent(run, lines[-1])
    planned = None if plan is None else _whole(plan["rollouts"]["most"])
    return Status(
        run=str(run),
        state=state,
        pid=pid if running else None,
        reason=reason,
        position=None if state == "finished" else _position(events, plan),
        signals=tuple(
            line["reward"] if line["event"] == "weight_step" else line["best"]
            for line in events
            if line["event"] in UNITS
        ),
        steps=sum(line["event"] == "weight_step" for line in events),
        selection=tuple(
            line["selection"]["mean"] for line in events if line["event"] == "phase_done"
        ),
        harness=next(
            (str(line["harness"]) for line in reversed(events) if line["event"] == "phase_done"), ""
        ),
        spent=spent,
        caps=_caps(run, lines),
        seconds=seconds,
        idle_seconds=idle,
        planned_rollouts=planned,
        left_seconds=None if state == "finished" else _left(spent["rollouts"], planned, seconds),
        notices=tuple(_notices(lines)),
        result=_json(run / "result.json") if state == "finished" else None,
    )


def list_runs(folder: Path) -> list[Status]:
    """Return the status of every run in ``folder``, by name; one that is damaged says so."""
    if not folder.is_dir():
        return []
    found = []
    for run in sorted(each for each in folder.iterdir() if each.is_dir()):
        if not os.access(run, os.X_OK) or (run / JOURNAL).is_file() or (run / LOCK).is_file():
            try:
                found.append(read_status(run))
            except RunFolderError as error:
                found.append(Status(str(run), "damaged", reason=str(error)))
    return found


def holder(lock: Path) -> int | None:
    """Return the process that holds the lock file, 0 if the system does not tell, None if nobody.

    Trying the lock would hold it for a moment, in which the run itself could not be resumed.
    """
    try:
        file = lock.stat()
    except FileNotFoundError:
        return None
    try:
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return 0
    device = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}"
    for line in lines:
        words = line.split()  # 1: FLOCK ADVISORY WRITE <pid> <major>:<minor>:<inode> 0 EOF
        if len(words) > 5 and words[1] == "FLOCK" and words[5].endswith(f":{file.st_ino}"):
            pid = int(words[4])
            if words[5] == f"{device}:{file.st_ino}" or _has_open(pid, lock):
                return pid
    return None


def _has_open(pid: int, path: Path) -> bool:
    """Return whether a process has a file open; layered file systems number devices twice."""
    try:
        return any(fd.resolve() == path.resolve() for fd in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def _state(lines: Sequence[Entry], pid: int | None) -> tuple[str, str]:
    if any(line.get("event") == "run_done" for line in lines):
        return "finished", ""
    if pid is not None:
        return ("running", "") if pid else ("unknown", "this system does not list file locks")
    last = lines[-1]
    if last.get("note") == "stopped":
        return "stopped", str(last["why"])
    return "killed", "its process was killed, or failed on an error that it printed"


def _position(events: Sequence[Entry], plan: Mapping[str, Json] | None) -> Position:
    """Return the phase that comes after the last finished one, and what it has done."""
    ends = [index for index, line in enumerate(events) if line["event"] == "phase_done"]
    number = len(ends)  # the start is phase 0
    here = events[ends[-1] + 1 :] if ends else events[1:]
    phases = [] if plan is None else plan["phases"]
    planned = phases[number] if number < len(phases) else None
    kinds = [UNITS[line["event"]] for line in here if line["event"] in UNITS]
    if any(line["event"] in ("decision", "test_opened", "evaluation") for line in here):
        kind = "final"
    elif kinds:
        kind = kinds[0]
    else:
        kind = str(planned["kind"]) if planned else _kind_of_rollouts(here)
    if planned is not None and planned["kind"] != kind:
        planned = None  # not the phase that was planned for this place
    last = max((i for i, line in enumerate(here) if line["event"] in UNITS), default=-1)
    since = Counter[str]()
    for line in here[last + 1 :]:
        if line["event"] == "rollouts":
            since[str(line["purpose"])] += int(line["rollouts"])
    length = planned["length"] if planned and kind in ("weights", "harness") else None
    exact = length is not None and length["least"] == length["most"]
    first = str(events[ends[1]]["kind"]) if len(ends) > 1 else kind  # after the start
    begins = kind in ("weights", "harness") and begins_cycle(kind, first)
    return Position(
        phase=number,
        phases=len(phases) - 1 if phases else None,
        cycle=(int(events[ends[-1]]["cycle"]) if ends else 0) + begins,
        kind=kind,
        done=len(kinds),
        planned=length["most"] if exact and length is not None else None,
        since=dict(since),
    )


def _kind_of_rollouts(lines: Sequence[Entry]) -> str:
    purposes = {str(line.get("purpose")) for line in lines}
    if "train" in purposes:
        return "weights"
    return "harness" if purposes & {"score", "confirm", "smoke"} else ""


def _spent(run: Path, last: Entry) -> dict[str, float]:
    """Return what the ledger sums to, its lines up to the length that the journal names."""
    size = int(last["lengths"].get(LEDGER, 0))
    try:
        with (run / LEDGER).open("rb") as file:
            text = file.read(size)
    except FileNotFoundError as error:
        if size:
            raise RunFolderError(f"{run / LEDGER} is missing: {size} bytes of it count") from error
        text = b""
    try:
        ledger = Ledger.of(json.loads(line) for line in text.splitlines())
    except (ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{run / LEDGER} is damaged: {error!r}") from error
    tokens = ledger.total("prompt_tokens") + ledger.total("sampled_tokens")
    return {
        "rollouts": ledger.rollouts,
        "not_scored": ledger.total("not_scored"),
        "tokens": tokens,
        "sampled_tokens": ledger.total("sampled_tokens"),
        "trained_tokens": ledger.total("trained_tokens"),
        "usd": ledger.total("usd"),
    }


def _caps(run: Path, lines: Sequence[Entry]) -> dict[str, float]:
    """Return the caps that are set: those of the last resumption, else the configuration's."""
    resumed = [line["cap"] for line in lines if line.get("note") == "resumed" and "cap" in line]
    caps = resumed[-1] if resumed else _config(run).get("cap")
    known = asdict(CapSettings())
    given = caps if isinstance(caps, dict) else {}
    return {name: float(given[name]) for name in known if given.get(name)}


def _config(run: Path) -> Mapping[str, Json]:
    try:
        read = yaml.safe_load((run / "config.yaml").read_text())
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return read if isinstance(read, dict) else {}


def _whole(number: Json) -> int | None:
    return None if number is None else int(number)


def _left(done: float, planned: int | None, seconds: float) -> float | None:
    """Return how long the planned rest takes at the run's pace so far."""
    if not planned or not done:
        return None
    return max(0.0, planned - done) * seconds / done


def _notices(lines: Sequence[Entry]) -> list[str]:
    """Return the last lines that were written for the reader."""
    left_out = ("note", "lengths", "digests", "at_seconds", "cap", "at")
    return [
        " ".join(
            [str(line["note"]).replace("_", " ")]
            + [f"{key} {value}" for key, value in line.items() if key not in left_out]
        )
        for line in lines
        if "note" in line
    ][-NOTICES:]


def _json(path: Path) -> Mapping[str, Json] | None:
    """Return a JSON object, or None where there is none (older runs have no plan)."""
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return read if isinstance(read, dict) else None

"""The records of a comparison's finished runs, kept beside their folders.

A record holds all that a comparison needs of a run. It stands for the run where the folder, with
its weights and trajectories, was deleted or is on another machine.
"""

from __future__ import annotations

import json
from pathlib import Path

import cattrs
from attrs import asdict

from whale_core.errors import RunFolderError
from whale_core.evidence.collect import RunRecord, collect
from whale_core.run.folder import write_json

RECORDS = "records"
FORMAT = 1


def kept_at(run: Path) -> Path:
    """Return where the record of the run in folder ``run`` is kept."""
    return run.parent / RECORDS / f"{run.name}.json"


def keep(run: Path) -> RunRecord:
    """Return the record of the run in folder ``run``, and keep it if the run has finished.

    Raises:
        RunFolderError: it is no run folder, or it is damaged.
    """
    record = collect(run)
    if record.finished:
        path = kept_at(run)
        path.parent.mkdir(exist_ok=True)
        write_json(path, {"format": FORMAT, "record": asdict(record)})
    return record


def kept(run: Path) -> RunRecord | None:
    """Return the record that was kept of the run in folder ``run``; None if none was.

    Raises:
        RunFolderError: it cannot be read.
    """
    path = kept_at(run)
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if stored["format"] != FORMAT:
            raise ValueError(f"its format is {stored['format']}, this version reads {FORMAT}")
        record = cattrs.structure(stored["record"], RunRecord)
    except FileNotFoundError:
        return None
    except Exception as error:  # cattrs raises groups, and whatever a wrong value makes it
        raise RunFolderError(f"{path} is not the record of a run: {error}") from error
    if not record.finished or record.run != run.name:
        raise RunFolderError(f"{path} is not the record of a finished run {run.name}")
    return record

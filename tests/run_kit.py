"""Run folders as tests read them: past the framework's own reader, and without times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# What differs between equal runs, besides all that ends in "seconds": times, the run's id, file
# lengths (they hold the digits of times) and hashes over them; memory and threads; how often the
# test split was opened on this machine.
MEASURED = {"started", "run", "lengths", "digests", "check", "result_hash"}
MEASURED |= {"peak_memory_mb", "threads", "test_openings", "openings"}


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a JSON Lines file; none where there is no file yet."""
    text = path.read_bytes() if path.is_file() else b""
    return [json.loads(line) for line in text[: text.rfind(b"\n") + 1].splitlines()]


def journal_of(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a run's journal, notes included."""
    return lines_of(folder / "journal.jsonl")


def blocks_of(folder: Path) -> list[dict[str, Any]]:
    """Return the committed blocks of a run."""
    return [line for line in journal_of(folder) if "event" in line]


def result_of(folder: Path) -> dict[str, Any]:
    """Return a run's result."""
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def timeless(value: Any) -> Any:
    """Leave out what is ``MEASURED``."""
    if isinstance(value, Mapping):
        return {
            key: timeless(each)
            for key, each in value.items()
            if key not in MEASURED and not key.endswith("seconds")
        }
    return [timeless(each) for each in value] if isinstance(value, list) else value

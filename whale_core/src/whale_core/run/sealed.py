"""The sealed test split: opened once, by the final pass, after the decision is journalled.

Plugins get the domain behind a seal that refuses ``split("test")``. Openings are counted per split
content across all runs on this machine, and every result says how often it had been opened.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whale_core.errors import InputError, RunFolderError
from whale_core.keys import json_hash
from whale_core.records import Example
from whale_core.roles import Domain
from whale_core.run.folder import write_atomically

SEALED = "the test split is sealed: only a run's final evaluation opens it"


class SealedDomain:
    """A domain whose test split cannot be read. Everything else is passed on."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def split(self, name: str) -> Sequence[Example]:
        """Return a split that may be seen. Raises ``InputError`` for ``test``."""
        if name == "test":
            raise InputError(SEALED)
        return self._domain.split(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._domain, name)


def split_hash(examples: Sequence[Example]) -> str:
    """Return the content hash of a split, independent of its order."""
    return json_hash(sorted(json_hash([e.id, e.group, dict(e.content)]) for e in examples))


def record_opening(test_hash: str, run: str, register: Path | None = None) -> int:
    """Note that the run ``run`` opens the split ``test_hash``; return how many runs on this machine
    have. A run counts once, however often it is interrupted and continued."""
    path = register or register_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            opened: dict[str, list[str]] = json.loads(path.read_text()) if path.is_file() else {}
            runs = opened.setdefault(test_hash, [])
            if run not in runs:
                runs.append(run)
                text = json.dumps(opened, indent=1, sort_keys=True)
                write_atomically(path, lambda part: part.write_text(text))
            return runs.index(run) + 1
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise RunFolderError(
            f"{path}: the register of test openings cannot be used ({error}); repair it, or set "
            "WHALE_STATE to another folder, and resume"
        ) from error


def register_path() -> Path:
    """Return the file in which openings are counted on this machine."""
    base = os.environ.get("WHALE_STATE") or os.environ.get("XDG_STATE_HOME")
    root = Path(base) if base else Path.home() / ".local" / "state"
    return root / "whale" / "test-openings.json"

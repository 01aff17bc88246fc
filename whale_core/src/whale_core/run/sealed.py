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

from whale_core.errors import InputError
from whale_core.keys import json_hash
from whale_core.records import Example
from whale_core.roles import Domain


class SealedDomain:
    """A domain whose test split cannot be read. Everything else is passed on."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def split(self, name: str) -> Sequence[Example]:
        """Return a split that may be seen. Raises ``InputError`` for ``test``."""
        if name == "test":
            raise InputError("the test split is sealed: only a run's final evaluation opens it")
        return self._domain.split(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._domain, name)


def split_hash(examples: Sequence[Example]) -> str:
    """Return the content hash of a split, independent of its order."""
    return json_hash(sorted(json_hash([e.id, e.group, dict(e.content)]) for e in examples))


def record_opening(test_hash: str, register: Path | None = None) -> int:
    """Count one more opening of the split ``test_hash`` on this machine; return the count."""
    path = register or _register_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        counts: dict[str, int] = json.loads(text) if text else {}
        counts[test_hash] = counts.get(test_hash, 0) + 1
        file.seek(0)
        file.truncate()
        file.write(json.dumps(counts, indent=1, sort_keys=True))
        file.flush()
        os.fsync(file.fileno())
    return counts[test_hash]


def _register_path() -> Path:
    base = os.environ.get("WHALE_STATE") or os.environ.get("XDG_STATE_HOME")
    root = Path(base) if base else Path.home() / ".local" / "state"
    return root / "whale" / "test-openings.json"

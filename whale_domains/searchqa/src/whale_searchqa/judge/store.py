"""The file of what was bought from a judge: one line of JSON per reply, written before it is used.

Lines are only ever added, under a lock and each with an fsync, so that several processes can share
the file and ``kill -9`` loses nothing that was answered. A line that cannot be trusted (half
written, changed on disk) is passed over.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from whale_core.cache import cache_folder
from whale_core.keys import json_hash
from whale_core.records import Json, Spent


@frozen
class Bought:
    """One paid reply: for which question, by whom, what it said (None: no verdict), its cost, which
    counts a reply without a verdict as malformed."""

    key: str
    buyer: str
    verdict: bool | None
    spent: Spent


class Store:
    """What the file holds, kept up to date as it is asked. ``add`` may be called in another thread:
    it waits for the lock and the disk."""

    def __init__(self, path: Path) -> None:
        """Nothing is read or made yet."""
        self.path = path
        self._reading = threading.Lock()
        self._read = 0
        self._verdicts: dict[str, bool] = {}
        self._replies: dict[tuple[str, str], list[Bought]] = {}
        self._settled: dict[tuple[str, str], int] = {}

    def prepare(self) -> None:
        """Make the file, if it is not there. Raise ``OSError`` when it cannot be written."""
        with self._open():
            pass

    def verdict(self, key: str) -> bool | None:
        """Return the first verdict that was bought under ``key``, by any process."""
        if key not in self._verdicts:
            self._refresh()
        return self._verdicts.get(key)

    def replies(self, key: str, buyer: str) -> list[Bought]:
        """Return what ``buyer`` paid for under ``key``, in order."""
        return self._replies.get((key, buyer), [])

    def settled(self, key: str, buyer: str) -> int:
        """Return how many of ``buyer``'s replies under ``key`` are in a ledger to stay."""
        return self._settled.get((key, buyer), 0)

    def add(self, bought: Bought) -> None:
        """Keep a reply, on disk first. Raise ``OSError`` when it cannot be written."""
        self._append(_fields(bought))

    def settle(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Keep how many replies of each key and buyer are in a ledger. Raises as ``add``."""
        self._append({"settled": [[*each, count] for each, count in counts.items()]})

    def _append(self, fields: dict[str, Json]) -> None:
        line = json.dumps({**fields, "check": json_hash(fields)}) + "\n"
        with self._open() as file:
            end = os.lseek(file, 0, os.SEEK_END)
            if end and os.pread(file, 1, end - 1) != b"\n":
                line = "\n" + line  # another process died while it wrote
            _write(file, line.encode())
            os.fsync(file)
        self._refresh()

    @contextmanager
    def _open(self) -> Iterator[int]:
        """Open the file to add to it, locked."""
        new = not self.path.exists()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if new:
                _sync_folder(self.path.parent)
            yield file
        finally:
            os.close(file)

    def _refresh(self) -> None:
        """Take in the complete lines that were added since."""
        with self._reading:
            self._take_new()

    def _take_new(self) -> None:
        try:
            with self.path.open("rb") as file:
                if os.fstat(file.fileno()).st_size < self._read:  # it was cleared, or made anew
                    self._read = 0
                    self._verdicts.clear()
                    self._replies.clear()
                    self._settled.clear()
                file.seek(self._read)
                data = file.read()
        except (FileNotFoundError, NotADirectoryError):
            return
        data = data[: data.rfind(b"\n") + 1]
        self._read += len(data)
        for line in data.split(b"\n"):
            self._take(_checked(line))

    def _take(self, fields: Mapping[str, Json]) -> None:
        for key, buyer, count in _settlements(fields):
            self._settled[key, buyer] = max(count, self.settled(key, buyer))
        bought = _bought(fields)
        if bought is None:
            return
        self._replies.setdefault((bought.key, bought.buyer), []).append(bought)
        if bought.verdict is not None:
            self._verdicts.setdefault(bought.key, bought.verdict)


def default_path() -> Path:
    """Return the file in the cache folder."""
    return cache_folder() / "searchqa" / "verdicts.jsonl"


def _fields(bought: Bought) -> dict[str, Json]:
    cost = bought.spent
    return {
        "key": bought.key,
        "buyer": bought.buyer,
        "verdict": bought.verdict,
        "spent": [
            cost.calls,
            cost.prompt_tokens,
            cost.cached_tokens,
            cost.sampled_tokens,
            cost.usd,
        ],
    }


def _checked(line: bytes) -> Mapping[str, Json]:
    """Return the fields of a line; none when it is not one that was written here, whole."""
    try:
        fields = json.loads(line)
        sound = fields.pop("check") == json_hash(fields)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return fields if sound else {}


def _settlements(fields: Mapping[str, Json]) -> list[tuple[str, str, int]]:
    listed = fields.get("settled")
    return [
        (each[0], each[1], each[2])
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, list) and [*map(type, each)] == [str, str, int]
    ]


def _bought(fields: Mapping[str, Json]) -> Bought | None:
    try:
        key, buyer, verdict, spent = (fields[n] for n in ("key", "buyer", "verdict", "spent"))
        calls, prompt, cached, sampled, usd = spent
    except (KeyError, TypeError, ValueError):
        return None
    sound = (
        isinstance(key, str)
        and isinstance(buyer, str)
        and (verdict is None or isinstance(verdict, bool))
        and all(type(count) is int and count >= 0 for count in (calls, prompt, cached, sampled))
        and isinstance(usd, float)
        and 0.0 <= usd < math.inf
    )
    if not sound:
        return None
    cost = Spent(calls, prompt, cached, sampled, usd, malformed=int(verdict is None))
    return Bought(key, buyer, verdict, cost)


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

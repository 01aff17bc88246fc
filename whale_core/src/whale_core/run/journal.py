"""The journal: one JSON line per committed block, and how a continued run is held to it.

A line with an ``event`` is a block that the run's own arithmetic decides: an uninterrupted run of
the same settings has the same lines, times aside. A line with a ``note`` (interrupted, resumed, an
observer failed) is for the reader only. Every line records the byte lengths of the append-only
files at that moment, and ends with a check: a hash of this line and the check before it. So not a
byte of a journal can change unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path

from attrs import frozen

from whale_core.errors import RunFolderError
from whale_core.records import Json

FORMAT = 3
JOURNAL = "journal.jsonl"
# Besides all that ends in "seconds": what differs between equal runs.
TIMES = ("started", "run", "digests", "result_hash")

FILE_NAME = re.compile(r"(rollouts/)?[a-z0-9-]+\.jsonl")
UNICODE = ("utf-8", "surrogatepass")  # untrusted text may hold lone surrogates

_CHECKED = re.compile(rb'(\{.+), "check": "([0-9a-f]{16})"\}')

Entry = dict[str, Json]


@frozen
class Recorded:
    """A committed block: its line, and the lengths of the files before it and after it."""

    entry: Entry
    before: Mapping[str, int]

    def span(self, name: str) -> tuple[int, int]:
        """Return from where to where in the file ``name`` this block's records lie."""
        return self.before.get(name, 0), self.entry["lengths"].get(name, 0)

    def digest(self, name: str) -> str | None:
        """Return the hash of those records, None if there are none."""
        digest: str | None = self.entry["digests"].get(name)
        return digest


class Replay:
    """The recorded blocks that a continued run meets again, in order.

    The interrupted phase is executed again by the same code; whatever was committed is taken from
    here instead of being made anew. What is asked for must be what is recorded.
    """

    def __init__(self, blocks: Iterable[Recorded] = ()) -> None:
        self._blocks = deque(blocks)

    def __len__(self) -> int:
        return len(self._blocks)

    def peek(self, event: str) -> Recorded | None:
        """Return the next recorded block, or None when all have been met.

        Raises:
            RunFolderError: it is of another kind than ``event``.
        """
        if not self._blocks:
            return None
        block = self._blocks[0]
        if block.entry["event"] != event:
            raise _diverged(f"a block {event!r} is due", f"the journal has {_brief(block.entry)}")
        return block

    def meet(self, event: str, data: Mapping[str, Json]) -> Recorded:
        """Return the next block and go past it; ``data`` must say what it says, times aside.

        Raises:
            RunFolderError: it does not.
        """
        block = self.peek(event)
        assert block is not None
        now, then = timeless(_plain(data)), timeless(block.entry)
        for key, value in now.items():
            if json.dumps(value, sort_keys=True) != json.dumps(then.get(key), sort_keys=True):
                raise _diverged(
                    f"{event}: {key} is {_short(value)} now", f"it was {_short(then.get(key))}"
                )
        self._blocks.popleft()
        return block


def timeless(value: Json) -> Json:
    """Return ``value`` without what differs between equal runs: times and the run's own id."""
    if isinstance(value, Mapping):
        return {
            key: timeless(each)
            for key, each in value.items()
            if key not in TIMES and not key.endswith("seconds")
        }
    if isinstance(value, list):
        return [timeless(each) for each in value]
    return value


def sealed(entry: Entry, before: str) -> tuple[bytes, str]:
    """Return a journal line and its check; ``before`` is the check of the line before it, or ""."""
    body = json.dumps(entry, ensure_ascii=False).encode(*UNICODE)[:-1]
    check = _check(body, before)
    return body + f', "check": "{check}"}}\n'.encode(), check


def read_journal(path: Path) -> tuple[list[Entry], int, str]:
    """Return the journal's lines, how many bytes they take, and the last one's check.

    An unfinished last line is left out, and so are the checks.

    Raises:
        RunFolderError: there is no journal, it was changed, or another version wrote it.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise RunFolderError(f"{path.parent} is not a run folder: it has no {path.name}") from None
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read: {error.strerror}") from error
    whole = text.rfind(b"\n") + 1
    entries, check = [], ""
    for number, line in enumerate(text[:whole].split(b"\n")[:-1], 1):
        entry, check = _line(path, number, line, check)
        entries.append(entry)
    if not entries:
        raise RunFolderError(f"{path} is empty: the run never started; start it anew elsewhere")
    return entries, whole, check


def _check(body: bytes, before: str) -> str:
    return hashlib.sha256(before.encode() + body).hexdigest()[:16]


def _line(path: Path, number: int, line: bytes, before: str) -> tuple[Entry, str]:
    def refuse(problem: str) -> RunFolderError:
        return RunFolderError(f"{path}, line {number}: {problem}; the journal was changed")

    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise refuse(f"not a JSON line ({error})") from error
    if not isinstance(entry, dict):
        raise refuse("not a JSON object")
    if number == 1 and entry.get("format") != FORMAT:
        raise RunFolderError(
            f"{path} has run-folder format {_short(entry.get('format'))}, this version reads "
            f"format {FORMAT}: use the version that wrote it"
        )
    parts = _CHECKED.fullmatch(line)
    check = entry.pop("check", None)
    if parts is None or check != _check(parts[1], before):
        raise refuse("its check does not fit it and the line before")
    if not isinstance(entry.get("event", entry.get("note")), str):
        raise refuse("it has neither 'event' nor 'note'")
    seconds = entry.get("at_seconds")
    if not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise refuse("field 'at_seconds' is not a number of seconds")
    lengths = entry.get("lengths")
    if not isinstance(lengths, dict) or not all(
        FILE_NAME.fullmatch(name) and type(length) is int and length >= 0
        for name, length in lengths.items()
    ):
        raise refuse("field 'lengths' is not a table of file lengths")
    digests = entry.get("digests")
    if not isinstance(digests, dict) or not all(
        name in lengths and isinstance(digest, str) for name, digest in digests.items()
    ):
        raise refuse("field 'digests' is not a table of files' hashes")
    return entry, check


def _plain(data: Mapping[str, Json]) -> Json:
    """Return ``data`` as it would be read back (tuples as lists)."""
    return json.loads(json.dumps(data, ensure_ascii=False))


def _diverged(now: str, then: str) -> RunFolderError:
    return RunFolderError(
        f"the run cannot be continued exactly: {now}, but {then}; the code, a plugin or the "
        "machine's arithmetic is not what it was when the run was interrupted"
    )


def _brief(entry: Entry) -> str:
    return repr(entry["event"])


def _short(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "…"

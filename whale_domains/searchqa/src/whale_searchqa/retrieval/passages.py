"""Passages, and reading a corpus: one JSON object a line, ``{"id", "contents"}``, plain or ``.gz``.

``contents`` is the title in quotation marks, a line feed, and the text (the form of wiki-18). Other
fields are left alone.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from attrs import frozen

from whale_core.errors import InputError

LONGEST_LINE = 1 << 20  # bytes
SURROGATE = re.compile("[\ud800-\udfff]")
FORM = 'one {"id": "…", "contents": "\\"Title\\"\\ntext"} a line'


@frozen
class Passage:
    """One passage of a corpus."""

    id: str
    title: str
    text: str

    @property
    def contents(self) -> str:
        """Title and text as a corpus file writes them."""
        return f'"{self.title}"\n{self.text}'

    def document(self) -> dict[str, str]:
        """Return the passage as a corpus file and the ``/retrieve`` protocol write it."""
        return {"id": self.id, "contents": self.contents}

    def line(self) -> bytes:
        """Return the one way to write the passage as a line of a corpus file."""
        return json.dumps(self.document(), ensure_ascii=False).encode() + b"\n"


def corpus_hash(passages: Iterable[Passage]) -> str:
    """Return what names a corpus: a hash of its passages in order, however a file wrote them."""
    digest = hashlib.sha256()
    for passage in passages:
        digest.update(passage.line())
    return digest.hexdigest()[:16]


def read_passages(path: Path) -> Iterator[Passage]:
    """Yield the passages of a corpus file in order.

    Raises:
        InputError: it cannot be read, holds no passage, or a line is not a passage or repeats an
            id; the message names file, line and field.
    """
    seen: set[str] = set()
    number = 0
    try:
        with _open(path) as file:
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if not line.strip():
                    continue
                passage = _passage(line, f"{path}: line {number}")
                if passage.id in seen:
                    raise InputError(
                        f"{path}: line {number}: id: {passage.id!r} was already the id of an "
                        "earlier line; every passage needs its own"
                    )
                seen.add(passage.id)
                yield passage
    except (OSError, EOFError, zlib.error, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        where = f"{path}: line {number + 1}" if number else f"{path}"
        raise InputError(f"{where}: {reason}; a corpus is {FORM}, plain or .gz") from error
    if not seen:
        raise InputError(f"{path}: the corpus is empty; it must be {FORM}")


def halves(text: str) -> bool:
    """Say whether ``text`` holds half a surrogate pair, which JSON can write and UTF-8 cannot."""
    return not text.isascii() and SURROGATE.search(text) is not None


def _open(path: Path) -> IO[bytes] | gzip.GzipFile:
    path = Path(os.path.expanduser(path))
    if path.is_dir():
        raise InputError(f"{path}: a folder; a corpus is a file, {FORM}")
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _passage(line: bytes, where: str) -> Passage:
    if len(line) > LONGEST_LINE:
        raise InputError(f"{where}: longer than {LONGEST_LINE} bytes")
    try:
        row = json.loads(line)
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 text ({error.reason})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error}); needed is {FORM}") from error
    if not isinstance(row, dict):
        raise InputError(f"{where}: not a JSON object; needed is {FORM}")
    for field in ("id", "contents"):
        value = row.get(field)
        if field not in row:
            raise InputError(f"{where}: {field}: missing; needed is {FORM}")
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"{where}: {field}: must be text that is not empty")
        if halves(value):
            raise InputError(f"{where}: {field}: holds half a surrogate pair")
    title, _, text = row["contents"].partition("\n")
    if len(title) < 3 or title[0] != '"' or title[-1] != '"':
        raise InputError(
            f"{where}: contents: its first line must be the title in quotation marks; needed is "
            f"{FORM}"
        )
    if not text.strip():
        raise InputError(f"{where}: contents: no text below the title; needed is {FORM}")
    return Passage(row["id"], title[1:-1], text)

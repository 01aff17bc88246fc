"""Passages, and reading a corpus: one JSON object a line, ``{"id", "contents"}``, plain or ``.gz``.

``contents`` is the title in quotation marks, a line feed, and the text (the form of wiki-18). Other
fields are left alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from attrs import frozen

from whale_core.errors import InputError
from whale_core.json_lines import read_objects
from whale_core.records import Json

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
    for number, row in read_objects(path, f"a corpus is {FORM}"):
        passage = _passage(row, f"{path}: line {number}")
        if passage.id in seen:
            raise InputError(
                f"{path}: line {number}: id: {passage.id!r} was already the id of an earlier line; "
                "every passage needs its own"
            )
        seen.add(passage.id)
        yield passage
    if not seen:
        raise InputError(f"{path}: the corpus is empty; it must be {FORM}")


def halves(text: str) -> bool:
    """Say whether ``text`` holds half a surrogate pair, which JSON can write and UTF-8 cannot."""
    return not text.isascii() and SURROGATE.search(text) is not None


def _passage(row: Mapping[str, Json], where: str) -> Passage:
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

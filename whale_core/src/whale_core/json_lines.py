"""Reads files of one JSON object a line, plain or ``.gz``, and tells of rows that come again."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from attrs import define, field

from whale_core.cli.text import plural
from whale_core.errors import InputError
from whale_core.records import Json

LONGEST_LINE = 1 << 20  # bytes
SHOWN = 3  # of the lines that contradict others


def read_objects(path: Path, needed: str) -> Iterator[tuple[int, dict[str, Json]]]:
    """Yield the number of each line, from 1, and its object; one line is in memory at a time.

    Empty lines are passed over. ``needed`` ends an error: what such a file must be.

    Raises:
        InputError: the file cannot be read to its end, or a line is no JSON object; the message
            names file and line.
    """
    number = 0
    try:
        with _open(path, needed) as file:
            while line := file.readline(LONGEST_LINE + 1):
                number += 1
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.strip():
                    yield number, _object(line, f"{path}: line {number}", needed)
    except (OSError, EOFError, zlib.error, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        where = f"{path}: line {number + 1}" if number else f"{path}"
        raise InputError(f"{where}: {reason}; {needed}, plain or .gz") from error


def _open(path: Path, needed: str) -> IO[bytes] | gzip.GzipFile:
    path = Path(os.path.expanduser(path))
    if path.is_dir():
        raise InputError(f"{path}: a folder; {needed}, plain or .gz")
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _object(line: bytes, where: str, needed: str) -> dict[str, Json]:
    if len(line) > LONGEST_LINE:
        raise InputError(f"{where}: longer than {LONGEST_LINE} bytes")
    try:
        row = json.loads(line)
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 text ({error.reason})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error}); {needed}") from error
    if not isinstance(row, dict):
        raise InputError(f"{where}: not a JSON object; {needed}")
    return row


@define
class Repeats:
    """Rows that repeat an earlier one, and those among them that say something else."""

    rows: int = 0
    contradicting: int = 0
    shown: list[str] = field(factory=list)

    def add(self, row: int, earlier: int, *, same: bool) -> None:
        """Take note of ``row``, which repeats ``earlier``; ``same``: with the same answer."""
        self.rows += 1
        if not same:
            self.contradicting += 1
            if len(self.shown) < SHOWN:
                self.shown.append(f"{row} after {earlier}")

    def note(self, place: str, unit: str, kept: str) -> str | None:
        """Return the line that tells a user of contradictions, if there are any.

        ``unit`` is what ``place`` is counted in, ``kept`` which of the answers counts.
        """
        if not self.contradicting:
            return None
        more = ", …" if self.contradicting > len(self.shown) else ""
        return (
            f"{place}: {plural(self.contradicting, 'repeated question')} with another answer than "
            f"before ({unit} {', '.join(self.shown)}{more}); {kept}"
        )

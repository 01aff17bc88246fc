"""The rows of a puzzle file, plain or ``.zst``, each with its line number.

A row is one line: a stray quotation mark spoils its own row and no other. What is wrong with a row
is raised for that row; what is wrong with the file ends the reading.
"""

from __future__ import annotations

import csv
import io
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import zstandard

from whale_core.errors import InputError

REQUIRED = ("PuzzleId", "FEN", "Moves")
USED = (*REQUIRED, "Rating", "Themes", "GameUrl")
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
GZIP_MAGIC = b"\x1f\x8b"
BLOCK = 1 << 16
LONGEST_LINE = 1 << 16  # characters; below the csv module's own limit for a field
NEEDED = "domain.puzzles must be a Lichess CSV or .csv.zst"

Row = Mapping[str, str]


class BadRow(Exception):
    """Why a row cannot be used: the field and the reason."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field


def read_rows(path: Path) -> Iterator[tuple[int, Row | BadRow]]:
    """Yield the line number (from 1) of each row and its fields, or what is wrong with it.

    Empty lines are passed over.

    Raises:
        InputError: the file cannot be read to its end, or its first line is not a header with the
            needed columns.
    """
    number = 0
    try:
        with _open(path) as lines:
            header: list[str] = []
            for line in _bounded(lines):
                number += 1
                if number == 1:
                    header = _header(path, line)
                elif line.strip("\r\n"):
                    yield number, _row(line, header)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: {reason}; {NEEDED}") from error
    except zstandard.ZstdError as error:
        raise InputError(
            f"{path}: line {number + 1}: not a readable .zst file from here on ({error}); "
            "get the file again"
        ) from error
    except EOFError as error:
        raise InputError(
            f"{path}: line {number + 1}: the compressed data ends in the middle of a frame, so the "
            "file is incomplete; get it again"
        ) from error
    if number == 0:
        raise InputError(f"{path}: line 1: the file is empty; {NEEDED}")


@contextmanager
def _open(path: Path) -> Iterator[io.TextIOWrapper]:
    """Open a regular file as text; bytes that are not UTF-8 become lone surrogates."""
    path = Path(os.path.expanduser(path))
    if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
        raise InputError(f"{path}: not a regular file; {NEEDED}")
    with path.open("rb") as raw:
        start = raw.read(4)
        raw.seek(0)
        if start[:2] == GZIP_MAGIC:
            raise InputError(f"{path}: gzip data; unpack it first (gunzip); {NEEDED}")
        packed = path.suffix == ".zst" or start == ZSTD_MAGIC
        data: BinaryIO = io.BufferedReader(_Unpacked(raw)) if packed else raw
        yield io.TextIOWrapper(data, encoding="utf-8-sig", errors="surrogateescape", newline=None)


class _Unpacked(io.RawIOBase):
    """The content of all frames of a ``.zst`` file.

    ``zstandard``'s own stream readers take the end of the file for the end of the data. Here it is
    an ``EOFError`` inside a frame.
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._started = False  # has the frame been given anything?
        self._packed = b""
        self._ready = b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill a part of ``buffer``; return how much, 0 at the end."""
        while not self._ready:
            self._packed = self._packed or self._raw.read(BLOCK)
            if not self._packed:
                if self._started:
                    raise EOFError
                return 0
            self._ready = self._frame.decompress(self._packed)
            self._packed, self._started = b"", True
            if self._frame.eof:
                self._packed = self._frame.unused_data
                self._frame = zstandard.ZstdDecompressor().decompressobj()
                self._started = False
        taken = self._ready[: len(buffer)]
        buffer[: len(taken)] = taken
        self._ready = self._ready[len(taken) :]
        return len(taken)


def _bounded(lines: io.TextIOWrapper) -> Iterator[str]:
    """Yield the lines, of an endless one only the beginning."""
    while line := lines.readline(LONGEST_LINE + 1):
        yield line
        while len(line) > LONGEST_LINE and not line.endswith("\n"):
            line = lines.readline(LONGEST_LINE + 1)


def _header(path: Path, line: str) -> list[str]:
    try:
        (header,) = csv.reader([line], strict=True)
    except (csv.Error, ValueError):
        header = []
    missing = [name for name in REQUIRED if name not in header]
    if missing:
        raise InputError(
            f"{path}: line 1 names no column {', '.join(missing)}; "
            "the columns of the Lichess puzzle database are needed"
        )
    for name in USED:
        if header.count(name) > 1:
            raise InputError(f"{path}: line 1 names the column {name} twice")
    return header


def _row(line: str, header: list[str]) -> Row | BadRow:
    last = len(header) - 1
    if len(line) > LONGEST_LINE:
        field = header[min(line.count(","), last)]
        return BadRow(field, f"the line is longer than {LONGEST_LINE} characters")
    try:
        (values,) = csv.reader([line], strict=True)
    except csv.Error as error:
        field = header[min(line[: line.find('"') + 1].count(","), last)]
        return BadRow(field, f"a quoted field is not closed on its line ({error})")
    for name, value in zip(header, values, strict=False):
        if not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value):
            return BadRow(name, "not UTF-8 text")
        if "\0" in value:
            return BadRow(name, "has a NUL character")
    if len(values) <= last:
        return BadRow(
            header[len(values)],
            f"missing, the row has {len(values)} of {len(header)} fields",
        )
    if len(values) > len(header):
        return BadRow(header[last], f"{len(values)} fields, where line 1 names {len(header)}")
    return dict(zip(header, values, strict=True))

"""Files of JSON lines in the user's cache, to which commands add; a stop may cut off the last."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from whale_core.errors import RunFolderError
from whale_core.records import Json


def append_lines(path: Path, lines: Sequence[str]) -> None:
    """Add lines, through to the disk; after one that was cut off they begin on a new one.

    Raises:
        RunFolderError: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(b"\n" if _cut(path) else b"")
            file.write("".join(f"{line}\n" for line in lines).encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise RunFolderError(
            f"{path} cannot be written ({error.strerror}): free some space, or set WHALE_CACHE "
            "to another folder"
        ) from error


def read_lines(path: Path) -> Iterator[dict[str, Json]]:
    """Yield the objects of a file, none where there is none; a line that was cut off is left out.

    Raises:
        RunFolderError: the file cannot be read.
    """
    try:
        text = path.read_bytes() if path.is_file() else b""
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read ({error.strerror})") from error
    for line in text.split(b"\n"):
        try:
            each = json.loads(line)
        except ValueError:
            continue  # cut off, or empty
        if isinstance(each, dict):
            yield each


def _cut(path: Path) -> bool:
    """Say whether the file's last line was cut off."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"

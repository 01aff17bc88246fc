"""Index folders: what is in one, and how one comes to be.

An index is made in ``DIR.part`` beside its place and renamed to ``DIR`` when it is complete, so a
folder that is there is whole. It holds ``manifest.json``, the passages (``passages.jsonl`` and
where each begins), and the index of its kind.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import mmap
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import overload

import numpy as np
from attrs import asdict, field, frozen
from attrs.validators import instance_of

from whale_core.errors import InputError
from whale_core.records import Json
from whale_searchqa.retrieval.passages import Passage, read_passages

FORMAT = 1
MANIFEST = "manifest.json"
PASSAGES = "passages.jsonl"
STARTS = "passages.starts.npy"
MAKE = "make it with: whale-searchqa index CORPUS --out DIR"


@frozen
class Manifest:
    """What an index folder says about itself."""

    kind: str = field(validator=instance_of(str))
    corpus: str = field(validator=instance_of(str))  # hash of the passages in order
    passages: int = field(validator=instance_of(int))
    settings: Mapping[str, Json] = field(validator=instance_of(dict))
    versions: Mapping[str, str]
    complete: bool = False
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        """Write it into ``folder``, at once."""
        with committed(folder / MANIFEST) as part:
            part.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")


class Passages(Sequence[Passage]):
    """The passages of an index folder, read from the mapped file when they are asked for."""

    def __init__(self, folder: Path) -> None:
        """Map the file in ``folder``."""
        self._starts = np.load(folder / STARTS, mmap_mode="r")
        with (folder / PASSAGES).open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, row: int) -> Passage: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Passage]: ...
    def __getitem__(self, row: int | slice) -> Passage | Sequence[Passage]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        if not 0 <= row < len(self):
            raise IndexError(row)
        line = json.loads(self._data[int(self._starts[row]) : int(self._starts[row + 1])])
        title, _, text = line["contents"].partition("\n")
        return Passage(line["id"], title[1:-1], text)


def read_manifest(folder: Path, complete: bool = True) -> Manifest:
    """Return what ``folder`` says about itself; an unfinished one will do if not ``complete``.

    Raises:
        InputError: it is no index folder, of another version, or not complete.
    """
    path = folder / MANIFEST
    try:
        said = json.loads(path.read_bytes())
        found = said["format"]
        if found == FORMAT:
            manifest = Manifest(**said)
    except FileNotFoundError as error:
        what = "no index folder (it has no manifest.json)" if folder.is_dir() else "no such folder"
        raise InputError(f"{folder}: {what}; {MAKE}") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; {MAKE}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{path}: not the manifest of an index ({error}); {MAKE}") from error
    if found != FORMAT:
        raise InputError(
            f"{folder}: an index of format {found}, this version reads {FORMAT}; {MAKE}"
        )
    if complete and not manifest.complete:
        raise InputError(
            f"{folder}: an unfinished index; run the same whale-searchqa index again to finish it"
        )
    return manifest


def open_passages(folder: Path, manifest: Manifest) -> Passages:
    """Return the passages of an index. Raise ``InputError`` if files and manifest do not fit."""
    try:
        passages = Passages(folder)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{folder}: a damaged index ({error}); remove it and {MAKE}") from error
    size = (folder / PASSAGES).stat().st_size
    if len(passages) != manifest.passages or int(passages._starts[-1]) != size:
        raise InputError(f"{folder}: a damaged index, passages are missing; remove it and {MAKE}")
    return passages


def write_passages(corpus: Path, folder: Path, progress: Callable[[int], None]) -> tuple[str, int]:
    """Write the passages of a corpus file into ``folder``; return their hash and their number."""
    digest = hashlib.sha256()
    starts = [0]
    with committed(folder / PASSAGES) as part, part.open("wb") as file:
        for passage in read_passages(corpus):
            line = passage.line()
            digest.update(line)
            file.write(line)
            starts.append(starts[-1] + len(line))
            if len(starts) % 10_000 == 0:
                progress(len(starts) - 1)
    with committed(folder / STARTS) as part, part.open("wb") as file:
        np.save(file, np.array(starts, np.int64))
    return digest.hexdigest()[:16], len(starts) - 1


@contextmanager
def working_folder(out: Path) -> Iterator[Path]:
    """Lend ``OUT.part``, locked, to make an index in; ``finish`` gives it its name.

    Raises:
        InputError: it cannot be made, or another process works in it.
    """
    part = out.with_name(f"{out.name}.part")
    try:
        part.mkdir(parents=True, exist_ok=True)
        there = {each.name for each in part.iterdir()}
        if there and not there & {"lock", MANIFEST}:
            raise InputError(f"{part}: is there and is no index; choose another --out")
        lock = (part / "lock").open("wb")
    except OSError as error:
        raise InputError(f"{part}: {error.strerror}; choose another --out") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"{part}: another process is making this index") from error
        yield part


def finish(part: Path, out: Path) -> None:
    """Give a complete index its place."""
    (part / "lock").unlink(missing_ok=True)
    try:
        part.rename(out)
    except OSError as error:
        raise InputError(f"{out}: {error.strerror}; the index is in {part}") from error
    _sync(out.parent)


@contextmanager
def committed(path: Path) -> Iterator[Path]:
    """Lend a path to write to; what is there in the end becomes ``path``, whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    yield part
    _sync(part)
    part.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def versions(*names: str) -> dict[str, str]:
    """Return the installed versions of those distributions, which made an index."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found

"""What a session wrote: candidates with their metadata, and its report.

A model wrote these files, so anything can be wrong with them. Bad metadata costs a candidate its
description, never its evaluation; names are compared, never used as paths; only plain files count.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from whale_core import roles
from whale_core.records import Json
from whale_core.roles import Candidate

MOST_BYTES = 1 << 20  # of a source or of metadata; the gate `size` allows far less
MOST_SLOTS = 64
MOST_WORDS = 4000  # characters of a hypothesis, of changes
MOST_REPORT = 8000  # characters
SHARED = ("metadata.json", "pending_eval.json", "candidates.json")
NAMES = ("name", "slot", "id", "harness", "candidate", "file", "path")
ALIASES: Mapping[str, tuple[str, ...]] = {
    "parent": ("parent", "parent_id", "base", "based_on", "from"),
    "axis": ("axis", "axes", "category", "mechanism", "components"),
    "hypothesis": ("hypothesis", "rationale", "reason", "why"),
    "changes": ("changes", "change", "description", "summary", "diff_summary"),
}


def write_candidate(workspace: roles.Workspace, slot: int, candidate: Candidate) -> None:
    """Put a candidate into the outbox, as ``candidate-<slot>``, so that names sort as numbers."""
    folder = workspace.outbox / f"candidate-{slot:02d}"
    folder.mkdir(parents=True)
    (folder / "harness.py").write_bytes(candidate.source.encode())
    metadata = {name: getattr(candidate, name) for name in ALIASES}
    text = json.dumps(metadata, indent=1, ensure_ascii=False) + "\n"
    (folder / "metadata.json").write_text(text, encoding="utf-8")


def read_outbox(workspace: roles.Workspace) -> tuple[Candidate, ...]:
    """Return the candidates of the outbox, by slot name: ``<slot>/harness.py`` or ``<slot>.py``.

    Metadata is an object in ``<slot>/metadata.json`` or ``<slot>.json``, or an entry that names the
    slot in a list (or an object's list ``candidates``) in ``metadata.json``. Other usual names of
    the fields are understood. Bytes that are not UTF-8 become lone surrogates, which the gate
    ``size`` refuses.
    """
    return tuple(read_slots(workspace.outbox).values())


def read_slots(folder: Path) -> dict[str, Candidate]:
    """Return the candidates of a folder that is laid out like an outbox, by slot name.

    Beside a folder ``x`` the file ``x.py`` is the slot ``x.py``.
    """
    shared = _shared(folder)
    found: dict[str, Candidate] = {}
    for name, source, metadata in _slots(folder):
        slot = f"{name}.py" if name in found else name
        found[slot] = _candidate(name, source, metadata, shared)
    return found


def read_report(workspace: roles.Workspace) -> str:
    """Return the session's report, cut to a length that the next one can read; may be empty."""
    found = _read(workspace.outbox / "report.md")
    return "" if found is None else found.decode("utf-8", "replace")[:MOST_REPORT].strip()


def _slots(outbox: Path) -> Iterator[tuple[str, bytes, Path]]:
    """Yield name, source and place of the metadata of each slot, in order of the names."""
    count = 0
    if outbox.is_symlink() or not outbox.is_dir():
        return
    for path in sorted(outbox.iterdir()):
        if path.is_symlink() or count == MOST_SLOTS:
            continue
        if path.is_dir():
            name, source, metadata = path.name, _read(path / "harness.py"), path / "metadata.json"
        elif path.suffix == ".py":
            name, source, metadata = path.stem, _read(path), path.with_suffix(".json")
        else:
            continue
        if source is not None:
            count += 1
            yield name, source, metadata


def _candidate(
    name: str, source: bytes, place: Path, shared: Mapping[str, Mapping[str, Json]]
) -> Candidate:
    text = source.decode("utf-8", "surrogateescape")
    found = _read(place)
    if found is None:
        return _described(text, shared.get(name, {}))
    try:
        data = json.loads(found.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        problem = f"metadata.json is unusable: {type(error).__name__}"
        return Candidate(text, None, changes=problem)
    entries = list(_entries(data))
    named = [entry for entry in entries if name in _names(entry)]
    return _described(text, (named or entries or [{}])[0])


def _described(source: str, data: Mapping[str, Json]) -> Candidate:
    lower = {str(key).lower(): value for key, value in data.items()}
    words = {
        name: next((_words(lower[alias]) for alias in aliases if lower.get(alias)), "")
        for name, aliases in ALIASES.items()
    }
    return Candidate(
        source, words["parent"] or None, words["axis"], words["hypothesis"], words["changes"]
    )


def _shared(outbox: Path) -> Mapping[str, Mapping[str, Json]]:
    """Return the metadata that one file holds for all slots, by slot name."""
    found: dict[str, Mapping[str, Json]] = {}
    for name in SHARED:
        try:
            data = json.loads((_read(outbox / name) or b"null").decode("utf-8"))
        except (ValueError, RecursionError):
            continue
        if isinstance(data, Mapping) and not any(isinstance(data.get(k), list) for k in data):
            by_slot = {str(k): v for k, v in data.items() if isinstance(v, Mapping)}
            found = by_slot | found
        for entry in _entries(data):
            for slot in _names(entry):
                found.setdefault(slot, entry)
    return found


def _entries(data: Json) -> Iterator[Mapping[str, Json]]:
    """Yield the objects of metadata: the object itself, a list's, or those of its one list."""
    if isinstance(data, list):
        yield from (each for each in data if isinstance(each, Mapping))
    elif isinstance(data, Mapping):
        inner = data.get("candidates", data.get("harnesses"))
        if isinstance(inner, list):
            yield from _entries(inner)
        else:
            yield data


def _names(entry: Mapping[str, Json]) -> set[str]:
    """Return what an entry may call its slot; of a path, its parts."""
    texts = [entry[key] for key in NAMES if isinstance(entry.get(key), str)]
    return {part.removesuffix(".py") for text in texts for part in (text, *text.split("/")) if part}


def _words(value: Json) -> str:
    """Return a metadata value as one text that can be stored."""
    if isinstance(value, list):
        value = ", ".join(str(each) for each in value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode("utf-8", "replace").decode().strip()[:MOST_WORDS]


def _read(path: Path) -> bytes | None:
    """Return the content of a plain file, cut to ``MOST_BYTES`` + 1; None of anything else.

    Links are not followed: what they name would become visible in the archive.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(MOST_BYTES + 1)
    finally:
        os.close(handle)

"""Recorded proposals: a folder that holds what a proposer wrote, round by round.

``recording.json`` says who wrote it and from what; ``iteration-01/<slot>/harness.py`` and
``metadata.json`` are the candidates of the first round, and so on, in the form in which a proposer
leaves them in its outbox. Sources are named by content hash, so that nobody can change one
unnoticed, and a parent is found again in an archive that numbers its entries otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import cattrs
from attrs import field, frozen

from whale_core.errors import InputError
from whale_core.keys import content_hash
from whale_core.roles import Candidate
from whale_metaharness.outbox import read_slots

FORMAT = 1
ABOUT = "recording.json"


@frozen
class RecordedCandidate:
    """The content hashes of a candidate's source and of its parent's."""

    harness_id: str
    parent_id: str | None = None


@frozen
class LeftOut:
    """A candidate of the recorded run that is not in the recording: its content hash, its parent's,
    and why."""

    harness_id: str
    parent_id: str | None
    reason: str


@frozen
class RecordedRound:
    """One round: its candidates by slot, and the SHA-256 of each file of the workspace that was
    read before they were written, by its path in the workspace. ``left_out`` tells of the round's
    candidates that are not in the recording."""

    candidates: Mapping[str, RecordedCandidate]
    reads: Mapping[str, str] = field(factory=dict)
    left_out: Mapping[str, LeftOut] = field(factory=dict)


@frozen
class Recording:
    """What ``recording.json`` says. ``label`` is one short phrase on how the proposals came about;
    ``saw`` says what their author could see."""

    domain: str
    base_harness: str
    author: str
    saw: str
    label: str
    iterations: tuple[RecordedRound, ...]
    format: int = FORMAT


def read_recording(folder: Path) -> Recording:
    """Read the account of the recording in ``folder``.

    Raises:
        InputError: there is none, or it is not of this format.
    """
    path = folder / ABOUT
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        recording = cattrs.Converter(forbid_extra_keys=True).structure(data, Recording)
    except Exception as error:  # whatever is wrong with the file, the remedy is the same
        words = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{path}: not the account of a recording ({words})") from error
    if recording.format != FORMAT:
        raise InputError(f"{path}: format {recording.format}; this version reads {FORMAT}")
    return recording


def round_folder(folder: Path, number: int) -> Path:
    """Return where the candidates of round ``number`` (from 1) are."""
    return folder / f"iteration-{number:02d}"


def read_round(folder: Path, recording: Recording, number: int) -> dict[str, Candidate]:
    """Return the candidates of round ``number`` (from 1) by slot, as they were written.

    Raises:
        InputError: a candidate is missing, is not told in ``recording.json`` or not what it tells.
    """
    told = recording.iterations[number - 1].candidates
    place = round_folder(folder, number)
    candidates = read_slots(place)
    if set(candidates) != set(told):
        raise InputError(
            f"{place}: has the slots {', '.join(candidates) or 'none'}, {ABOUT} tells "
            f"{', '.join(sorted(told)) or 'none'}"
        )
    for slot, candidate in candidates.items():
        written = candidate.source.encode("utf-8", "surrogateescape")
        if content_hash(written) != told[slot].harness_id:
            raise InputError(f"{place / slot}/harness.py is not the source that {ABOUT} tells")
    return candidates

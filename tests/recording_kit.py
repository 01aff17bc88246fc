"""Recordings for tests, written as a person would."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import cattrs

from whale_core.keys import content_hash
from whale_metaharness.recording import (
    ABOUT,
    RecordedCandidate,
    RecordedRound,
    Recording,
    round_folder,
)

READS = {"brief.md": "0" * 64}


def write_recording(
    folder: Path,
    rounds: Sequence[Sequence[str]],
    parents: Sequence[str],
    domain: str,
    reads: dict[str, str] = READS,
) -> Path:
    """Write a recording whose rounds have these sources; ``parents`` holds the source of each
    round's parent."""
    account = []
    for number, (sources, parent) in enumerate(zip(rounds, parents, strict=True), 1):
        told = {}
        for index, source in enumerate(sources, 1):
            slot = round_folder(folder, number) / f"candidate-{index}"
            slot.mkdir(parents=True)
            (slot / "harness.py").write_text(source)
            about = {"parent": "h0000", "axis": "parser", "hypothesis": f"round {number} helps"}
            (slot / "metadata.json").write_text(json.dumps(about))
            told[slot.name] = RecordedCandidate(content_hash(source), content_hash(parent))
        account.append(RecordedRound(told, reads))
    words = ("a person", "the workspace", "written by hand from the workspace alone")
    recording = Recording(domain, "", *words, tuple(account))
    folder.mkdir(exist_ok=True)
    (folder / ABOUT).write_text(json.dumps(cattrs.unstructure(recording)))
    return folder

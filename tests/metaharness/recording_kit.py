"""Recordings for tests: written as a person would, on the fake domain."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import cattrs
from metaharness_fakes import H0

from whale_core.keys import content_hash
from whale_metaharness.recording import (
    ABOUT,
    RecordedCandidate,
    RecordedRound,
    Recording,
    round_folder,
)

READS = {"brief.md": "0" * 64}


def discovery(size: int) -> str:
    """Return H0 with a parser that the catalogue does not have."""
    old = H0[H0.index("    def parse") : H0.index("    async def run")]
    new = f"    def parse(self, text):\n        return text.strip()[:{size}]\n\n"
    return H0.replace(old, new)


def write_recording(
    folder: Path,
    rounds: Sequence[Sequence[str]],
    parents: Sequence[str] = (),
    domain: str = "fake",
    reads: dict[str, str] = READS,
) -> Path:
    """Write a recording whose rounds have these sources; ``parents`` holds the sources of the
    parents, one a round (H0 where there are fewer)."""
    account = []
    for number, sources in enumerate(rounds, 1):
        parent = parents[number - 1] if number <= len(parents) else H0
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
    recording = Recording(domain, "base", *words, tuple(account))
    folder.mkdir(exist_ok=True)
    (folder / ABOUT).write_text(json.dumps(cattrs.unstructure(recording)))
    return folder

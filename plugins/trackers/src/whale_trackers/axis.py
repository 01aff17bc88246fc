"""How far a run is, from what its folder has committed: the numbers' x-axis.

What is read is what a continued run goes on from, so that its points continue the line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import define, field

AXES = ("rollouts", "tokens", "seconds", "weight_step")


@define
class Lines:
    """Reads the complete lines of a JSON Lines file that have been added since the last time."""

    path: Path
    _offset: int = field(default=0, init=False)

    def new(self) -> Iterator[dict[str, Any]]:
        """Yield the new lines; none while there is no file."""
        if not self.path.is_file():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        text = text[: text.rfind(b"\n") + 1]
        self._offset += len(text)
        yield from map(json.loads, text.splitlines())


class Progress:
    """A run's amounts by name (``AXES``): all rollouts; prompt and sampled tokens together, as
    ``cap.tokens`` counts them; seconds the run was worked on; weight steps."""

    def __init__(self, folder: Path) -> None:
        """Begin at the start of the run in ``folder``."""
        self._ledger, self._journal = (
            Lines(folder / "ledger.jsonl"),
            Lines(folder / "journal.jsonl"),
        )
        self._amounts: dict[str, float] = dict.fromkeys(AXES, 0)

    def at(self, axis: str) -> float:
        """Return the amount reached by now."""
        amounts = self._amounts
        for line in self._ledger.new():
            amounts["rollouts"] += line["rollouts"]
            amounts["tokens"] += line["prompt_tokens"] + line["sampled_tokens"]
        for line in self._journal.new():
            amounts["seconds"] = line.get("at_seconds", amounts["seconds"])
            if line.get("event") == "weight_step":
                amounts["weight_step"] = line["step"]
        return amounts[axis]


def identity_of(folder: Path) -> str:
    """Return what names the run in ``folder`` among all others, and in every process of it.

    It is the folder's name and the beginning of the run's own number, from its journal.
    """
    with (folder / "journal.jsonl").open() as file:
        number: str = json.loads(file.readline())["run"]
    return f"{folder.name}-{number[:8]}"

"""What the run says of each harness: names for weights, freshness of scores, acceptance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cattrs
from attrs import frozen

from whale_core.cli.text import percent, printable
from whale_core.run.archive import SELECTION, ArchiveEntry, ScoreRecord
from whale_core.run.reader import StoredRun, find_run


@frozen
class Facts:
    """A run's harnesses with what its journal says of them.

    A score is *fresh* when the run has the weights now that it was measured under. ``accepted`` has
    the harness phases at whose end a harness stood, by its content id.
    """

    run: StoredRun
    entries: Sequence[ArchiveEntry]
    weights: Mapping[str, str]
    weights_id: str
    accepted: Mapping[str, Sequence[int]]
    reported: str | None

    @classmethod
    def of(cls, name: str) -> Facts:
        """Read the run called ``name``. Raises ``RunFolderError`` when it cannot be read."""
        run = StoredRun.open(find_run(name))
        return cls(
            run=run,
            entries=run.harnesses(),
            weights=run.weights_labels(),
            weights_id=run.weights_id(),
            accepted=run.accepted_in(),
            reported=run.reported(),
        )

    def accepted_in(self, entry: ArchiveEntry) -> list[int]:
        """Return the phases that ended with ``entry``."""
        return [] if entry.rejection is not None else list(self.accepted.get(entry.harness.id, ()))

    def is_reported(self, entry: ArchiveEntry) -> bool:
        """Say whether the run's result is about ``entry``."""
        return entry.rejection is None and entry.harness.id == self.reported

    def label(self, weights_id: str) -> str:
        """Return a short name of weights, as ``θ0`` or ``step 6``."""
        return self.weights.get(weights_id, weights_id[:8])

    def is_fresh(self, record: ScoreRecord) -> bool:
        """Say whether the score was measured under the weights that the run has now."""
        return record.score.weights_id == self.weights_id

    def score_text(self, record: ScoreRecord) -> str:
        """Return a score in words: ``12.5 % of 64, step 6, fresh``."""
        score = record.score
        mean = percent(score.mean) if score.scored else "none"
        fresh = "fresh" if self.is_fresh(record) else "stale"
        kind = "" if record.kind == SELECTION else f" to {record.kind}"
        return f"{mean} of {score.scored}{kind}, {self.label(score.weights_id)}, {fresh}"

    def score_json(self, record: ScoreRecord) -> dict[str, Any]:
        """Return all that a score record holds, with the weights' name and freshness."""
        stored: dict[str, Any] = cattrs.unstructure(record)
        return {
            **stored,
            "weights": self.label(record.score.weights_id),
            "fresh": self.is_fresh(record),
        }

    def entry_json(self, entry: ArchiveEntry) -> dict[str, Any]:
        """Return all but source and rewards; ``score`` is the newest score."""
        score = None
        if entry.scores:
            last = self.score_json(entry.scores[-1])
            del last["score"]["rewards"]
            score = last
        rejection = entry.rejection
        return {
            "harness": entry.id,
            "id": entry.harness.id,
            "parent": entry.parent,
            "axis": entry.axis,
            "hypothesis": entry.hypothesis,
            "changes": entry.changes,
            "cycle": entry.cycle,
            "phase": entry.phase,
            "iteration": entry.iteration,
            "rejection": None if rejection is None else cattrs.unstructure(rejection),
            "position_leak": dict(entry.position_leak),
            "score": score,
            "accepted_in": self.accepted_in(entry),
            "reported": self.is_reported(entry),
        }


def marks(facts: Facts, entry: ArchiveEntry) -> str:
    """Return where a harness was accepted, as ``phases 2, 4; reported``."""
    phases = facts.accepted_in(entry)
    words = []
    if phases:
        unit = "phase" if len(phases) == 1 else "phases"
        words.append(f"{unit} {', '.join(map(str, phases))}")
    if facts.is_reported(entry):
        words.append("reported")
    return "; ".join(words)


def leak_text(leak: Mapping[str, float]) -> str:
    """Return what positional null models score, as ``first-listed 31.2 %``."""
    return ", ".join(f"{printable(name, 30)} {percent(value)}" for name, value in leak.items())


def reasons_text(reasons: Mapping[str, int]) -> str:
    """Return why rollouts ended before a verdict, as ``error: …: 12, tokens: 3``."""
    return ", ".join(f"{printable(reason)}: {number}" for reason, number in reasons.items())

"""What defines the rollouts of a cell, so that no other setting's rewards pass for them."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import asdict, frozen

from whale_core.abilities import NamesService
from whale_core.config import Resolved
from whale_core.keys import json_hash
from whale_core.records import Json
from whale_core.run.parts import RolloutParts, sampling_of

FORMAT = 2  # of identities and of the lines kept under them


@frozen
class TaskFacts:
    """All that rollouts depend on beside the pair, the example and the draw.

    ``compared`` must be the same in runs whose scores are to compare, by what each part is called;
    ``engine`` are the engine's facts, which the base model is among, and may differ.
    """

    compared: Mapping[str, Json]
    engine: Mapping[str, Json]

    @classmethod
    def of(cls, resolved: Resolved, parts: RolloutParts) -> TaskFacts:
        """Return the facts of a run's task; to be called once services have been probed, since
        what answers is among them."""
        domain, rollout = parts.domain, resolved.core.rollout
        service = parts.unsealed.service if isinstance(parts.unsealed, NamesService) else None
        compared = {
            "domain": f"{domain.name} {domain.version}",
            "domain settings": resolved.tree["domain"],
            "limits": asdict(domain.limits),
            "domain service": service,
            "verifier": parts.verifier.version,
            "decoding": asdict(sampling_of(rollout)),
            "thinking": rollout.thinking,
            "context": parts.engine.max_context,
            "jail": parts.jail_kind,
        }
        return cls(compared, dict(parts.engine.facts()))

    def difference(self, other: TaskFacts) -> tuple[str, Json, Json] | None:
        """Return what differs first of ``compared``: its name, here and in ``other``; of mappings
        only the fields that differ."""
        for name, ours in self.compared.items():
            theirs = other.compared[name]
            if ours == theirs:
                continue
            if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
                keys = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
                ours, theirs = ({key: each.get(key) for key in keys} for each in (ours, theirs))
            return name, ours, theirs
        return None


@frozen
class Identity:
    """What defines the rollouts of one cell, beside example and draw. ``seed`` and ``purpose`` are
    in their draw keys."""

    weights_id: str
    harness_id: str
    task: TaskFacts
    seed: int
    purpose: str

    @property
    def hash(self) -> str:
        """A name for all of it."""
        return json_hash([FORMAT, asdict(self)])

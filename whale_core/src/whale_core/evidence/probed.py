"""What a probe found: the four pairs, the gains between them, and what they cost."""

from __future__ import annotations

from attrs import asdict, frozen

from whale_core.errors import InputError
from whale_core.evidence.diagnosis import (
    Cost,
    Diagnosis,
    Gains,
    SearchFacts,
    TrainingFacts,
    gain_json,
)
from whale_core.records import Json
from whale_core.run.evaluation import PairScore
from whale_core.run.paired import paired
from whale_core.stats import Array, Interval, paired_difference

CORNERS = ("theta_h", "theta_h1", "theta1_h", "theta1_h1")


@frozen
class Probed:
    """A finished probe: the diagnosis and everything that was measured for it."""

    diagnosis: Diagnosis
    gains: Gains
    search: SearchFacts
    training: TrainingFacts
    pairs: dict[str, PairScore]
    state: dict[str, Json]
    confirmation: Cost
    ledger: dict[str, Json]
    seconds: float
    notes: tuple[str, ...]

    def as_json(self) -> dict[str, Json]:
        """Return everything but the example means as plain JSON."""
        gains = {
            "harness": gain_json(self.gains.harness, self.search.cost),
            "weights": gain_json(self.gains.weights, self.training.cost),
            "both": gain_json(self.gains.both, self.search.cost + self.training.cost),
        }
        pairs = {name: score.as_json() for name, score in self.pairs.items()}
        for each in pairs.values():
            del each["means"]
        return {
            **self.diagnosis.as_json(),
            "state": self.state,
            "gains": gains,
            "ahead": asdict(self.gains.ahead),
            "pairs": pairs,
            "search": asdict(self.search),
            "training": {**asdict(self.training), "acceptance": self.training.acceptance},
            "confirmation": asdict(self.confirmation),
            "ledger": self.ledger,
            "seconds": round(self.seconds, 1),
            "notes": list(self.notes),
        }


def gains_of(pairs: dict[str, PairScore], draws: int) -> Gains:
    """Return the paired differences between the ``CORNERS``, on examples scored in all of them.

    Raises:
        InputError: there is none.
    """
    scores = [pairs[name] for name in CORNERS]
    base, harness, weights, pair = paired(*(score.means for score in scores))
    if not len(base):
        raise InputError("no confirming example was scored under all four pairs: nothing compares")

    def gain(a: int, b: int, now: Array, then: Array) -> Interval:
        """Return exactly nothing where the pairs ``a`` and ``b`` are one."""
        same = scores[a] is scores[b]
        return Interval(0.0, 0.0, 0.0) if same else paired_difference(now, then)

    return Gains(
        base=scores[0].interval,
        harness=gain(1, 0, harness, base),
        weights=gain(2, 0, weights, base),
        both=gain(3, 0, pair, base),
        ahead=gain(1, 2, harness, weights),
        examples=len(base),
        draws=draws,
    )

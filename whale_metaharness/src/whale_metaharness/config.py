"""Settings of the search; those of proposers are in ``proposers/settings.py``."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import and_, deep_iterable, ge, gt, in_, le, lt, optional

from whale_core.config.later import LATER
from whale_metaharness.spaces import NAMES

ACCEPTANCE = ("argmax", "confirmed", "halving")
COSTS = ("calls", "tokens")


@frozen
class Config:
    """Settings of the search ``meta-harness``."""

    candidates: int = field(default=3, validator=ge(1))
    """Candidates asked for in each iteration (the published M)."""
    space: str = field(default="full", validator=in_(NAMES))
    """What a candidate may change: everything, the text of prompts alone (`prompt-only`), or the
    `members` that the next setting lists."""
    members: tuple[str, ...] = field(default=(), metadata=LATER)
    """Members of `class Harness`, methods or constants, that may change where `space` is
    `members`."""
    tie_breaks: tuple[str, ...] | None = None
    """Behaviour metrics that separate candidates of equal reward, larger first, in this order; null
    takes the domain's own."""
    max_source_bytes: int = field(default=65_536, validator=ge(1))
    """Longer sources are refused."""
    acceptance: str = field(default="argmax", validator=in_(ACCEPTANCE), metadata=LATER)
    """What decides: `argmax`, the best score of the phase (published); `confirmed`, one test at the
    phase's end on fresh draws of examples that no proposer sees; `halving`, successive halving of
    each iteration's candidates and the accepted harness, at no more rollouts."""
    minimum_gain: float = field(default=0.0, validator=and_(ge(0.0), lt(1.0)), metadata=LATER)
    """By how much a harness must solve more to take another's place (0.02: two points); equal
    rewards still go to tie-breaks and cost."""
    tie_costs: tuple[str, ...] = field(
        default=("calls",), validator=deep_iterable(in_(COSTS)), metadata=LATER
    )
    """What separates harnesses that are equal in reward and behaviour, less first, in this order:
    `calls` (of the model, published), `tokens` (sampled)."""
    rescore: int = field(default=0, validator=ge(0), metadata=LATER)
    """How many of the archive's best of earlier phases are scored again, beside the incoming
    harness, when a phase begins."""
    confirm_best: int = field(default=1, validator=ge(1), metadata=LATER)
    """`confirmed`: how many of the phase's best are measured again."""
    confirm_examples: int | None = field(default=None, validator=optional(ge(1)), metadata=LATER)
    """`confirmed`: on how many examples; null takes as many as `search.examples`."""
    confirm_draws: int = field(default=2, validator=ge(1), metadata=LATER)
    """`confirmed`: rollouts of each example."""
    error_rate: float = field(default=0.1, validator=and_(gt(0.0), le(0.5)), metadata=LATER)
    """`confirmed`: the chance that a phase accepts a harness that is no better."""
    reveal_references: bool = field(default=False, metadata=LATER)
    """Show proposers the references of the shown examples too; traces that passed reveal theirs in
    any case."""

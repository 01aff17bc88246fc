"""Which coordinate holds a pair (θ, h) back: the rule, and the figures it decides on.

From one state a short search finds h1 and a few weight steps lead to θ1; the four pairs are then
measured on common draws of held-out examples (``probe``). A gain is a paired difference to (θ, h);
it is confirmed when its 95 % interval lies above 0, so each of the three gains is confirmed by
chance at most once in forty. Paper, section 5: a short search as a cheap diagnostic.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import asdict, field, frozen

from whale_core.records import Json
from whale_core.stats import Interval

VERDICTS = ("harness-limited", "weight-limited", "both-limited", "starved", "undecided")
ALIKE = 1.25  # probes whose rollouts differ by no more than this factor are equally long
Z = 1.96
WORTH_SEEING = 0.05  # the gain that the advice after "undecided" makes visible


@frozen
class Cost:
    """What a part of a probe took: rollouts and tokens as the ledger has them."""

    rollouts: int = 0
    prompt_tokens: int = 0
    sampled_tokens: int = 0
    trained_tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        """Return both together."""
        both = {name: value + asdict(other)[name] for name, value in asdict(self).items()}
        return Cost(**both)


@frozen
class SearchFacts:
    """What the short search did. ``changed``: it accepted another harness than the one it was
    given."""

    iterations: int
    candidates: int
    rejected: int
    accepted: str
    reason: str
    changed: bool
    cost: Cost = field(factory=Cost)


@frozen
class TrainingFacts:
    """What the short weight phase did; ``rewards`` are the steps' mean training rewards."""

    steps: int
    rollouts: int
    scored: int
    accepted: int
    updates: int
    rewards: tuple[float, ...]
    changed_share: float | None = None
    cost: Cost = field(factory=Cost)

    @property
    def acceptance(self) -> float:
        """The share of scored rollouts that were accepted."""
        return self.accepted / self.scored if self.scored else 0.0


@frozen
class Gains:
    """Confirmed on the same draws: ``base`` is the score of (θ, h); the gains over it of (θ, h1),
    (θ1, h) and (θ1, h1); ``ahead`` is (θ, h1) - (θ1, h). ``examples`` and ``draws`` say on what."""

    base: Interval
    harness: Interval
    weights: Interval
    both: Interval
    ahead: Interval
    examples: int
    draws: int


@frozen
class Diagnosis:
    """The verdict (one of ``VERDICTS``), the rule that decided in words, and what to do next.

    ``starved`` is also told beside another verdict: the weight phase could make no update.
    """

    verdict: str
    rule: str
    advice: str
    starved: bool

    def as_json(self) -> dict[str, Json]:
        """Return it as plain JSON."""
        return asdict(self)


def diagnose(gains: Gains, search: SearchFacts, training: TrainingFacts) -> Diagnosis:
    """Return the verdict on what was measured; a pure function of it.

    In this order: one coordinate's gain confirmed and not the other's: that coordinate limits. Both
    confirmed: the one that is ahead (the interval of the difference leaves 0 out and its gain per
    rollout is larger), else both. Only (θ1, h1) confirmed: both. Nothing confirmed: starved where
    no update could be made, else undecided.
    """
    by_harness, by_weights = gains.harness.low > 0, gains.weights.low > 0
    starved = training.updates == 0
    says = f"harness {_points(gains.harness)}, weights {_points(gains.weights)}"
    if by_harness and by_weights:
        first = _ahead(gains, search.cost.rollouts, training.cost.rollouts)
        if first:
            verdict = "harness-limited" if first == "harness" else "weight-limited"
            rule = f"both coordinates gain, the {first} more: {says}; {_points(gains.ahead)} apart"
        else:
            verdict, rule = "both-limited", f"both coordinates gain, neither is ahead: {says}"
    elif by_harness:
        verdict = "harness-limited"
        rule = f"a new harness gains under unchanged weights, training does not gain: {says}"
    elif by_weights:
        verdict = "weight-limited"
        rule = f"training gains under the unchanged harness, a new harness does not: {says}"
    elif gains.both.low > 0:
        verdict = "both-limited"
        rule = f"neither coordinate gains alone ({says}), both together {_points(gains.both)}"
    elif starved:
        verdict = "starved"
        rule = (
            f"{training.accepted} of {training.scored} training rollouts were accepted, so no "
            f"update was made, and no other harness gains: {says}"
        )
    else:
        verdict = "undecided"
        rule = f"no gain is confirmed: every interval holds 0 ({says})"
    return Diagnosis(verdict, rule, _advice(verdict, starved, gains, training), starved)


def _ahead(gains: Gains, search: int, training: int) -> str:
    """Return the coordinate that is ahead, or nothing. Where the two probes were not equally long,
    the gain per rollout must agree."""
    first = "harness" if gains.ahead.low > 0 else "weights" if gains.ahead.high < 0 else ""
    least, most = sorted((max(search, 1), max(training, 1)))
    if not first or most <= ALIKE * least:
        return first
    per = gains.harness.mean / max(search, 1) - gains.weights.mean / max(training, 1)
    return first if (per > 0) == (first == "harness") else ""


def _advice(verdict: str, starved: bool, gains: Gains, training: TrainingFacts) -> str:
    if verdict == "harness-limited":
        after = "; training is starved until then" if starved else "; train when it no longer gains"
        return (
            f"search first: scheduler=harness-only, or one that begins with a harness phase{after}"
        )
    if verdict == "weight-limited":
        return "train first: scheduler=weight-only, or one that begins with a weight phase"
    if verdict == "both-limited":
        return "alternate: scheduler=fixed, short phases"
    if verdict == "starved":
        # The rule of three: with none in n, the rate is below 3 / n with 95 % confidence.
        most = 3 / training.scored if training.scored and not training.accepted else None
        rate = f" (at most {100 * most:.2g} % of rollouts are accepted)" if most else ""
        return (
            f"give it something to learn from{rate}: a stronger base harness (harness=…), easier "
            "examples, a larger model_update.group_size, or a longer search before training"
        )
    # Two proportions of about p on n paired examples: n >= 2 (z/gain)^2 p (1 - p) without
    # correlation. A rough figure for the order of magnitude, not a power analysis.
    p = min(max(gains.base.mean, 0.05), 0.95)
    wanted = int(2 * (Z / WORTH_SEEING) ** 2 * p * (1 - p)) + 1
    return (
        f"measure more: a gain of {100 * WORTH_SEEING:.0f} points here takes about {wanted} "
        f"rollouts a pair (these were {gains.examples * gains.draws}); or probe longer (--rollouts)"
    )


def _points(gain: Interval) -> str:
    return f"{100 * gain.mean:+.1f} points ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"


def gain_json(gain: Interval, cost: Cost) -> dict[str, Json]:
    """Return a gain with what it cost, and per 1,000 rollouts."""
    per = 1000 * gain.mean / cost.rollouts if cost.rollouts else None
    facts: Mapping[str, Json] = {**asdict(gain), "confirmed": gain.low > 0}
    return {**facts, "per_1000_rollouts": per, "cost": asdict(cost)}

"""Every figure of a result: intervals, paired comparisons, curves, power.

Scores are per-example means over k draws: arrays of shape (n,) in [0, 1]. Examples are the
independent unit; draws of one example are not. docs/statistics.md explains each figure.
"""

from whale_core.stats.choosing import (
    BestOnTest,
    Optimism,
    best_on_test,
    luck_of_the_best,
    selection_optimism,
)
from whale_core.stats.crossed import CrossedTest, crossed_test, crossed_variance
from whale_core.stats.curves import (
    Band,
    Curve,
    Match,
    Matches,
    average,
    best_so_far,
    matches_across_seeds,
    rollouts_to_match,
)
from whale_core.stats.intervals import (
    Array,
    Interval,
    critical_value,
    mean_interval,
    mean_limits,
)
from whale_core.stats.multiplicity import holm
from whale_core.stats.paired import (
    FLIPS,
    difference_limits,
    exceeds_chance,
    paired_difference,
    sign_flip_p,
)
from whale_core.stats.pass_at_k import mean_pass_at_k, pass_at_k
from whale_core.stats.phases import PhaseLengths, phase_lengths
from whale_core.stats.power import (
    detectable_gain,
    difference_variance,
    draw_correlation,
    power_of,
)
from whale_core.stats.seeds import ENOUGH, AcrossSeeds, across_seeds

__all__ = [
    "ENOUGH",
    "FLIPS",
    "AcrossSeeds",
    "Array",
    "Band",
    "BestOnTest",
    "CrossedTest",
    "Curve",
    "Interval",
    "Match",
    "Matches",
    "Optimism",
    "PhaseLengths",
    "across_seeds",
    "average",
    "best_on_test",
    "best_so_far",
    "critical_value",
    "crossed_test",
    "crossed_variance",
    "detectable_gain",
    "difference_limits",
    "difference_variance",
    "draw_correlation",
    "exceeds_chance",
    "holm",
    "luck_of_the_best",
    "matches_across_seeds",
    "mean_interval",
    "mean_limits",
    "mean_pass_at_k",
    "paired_difference",
    "pass_at_k",
    "phase_lengths",
    "power_of",
    "rollouts_to_match",
    "selection_optimism",
    "sign_flip_p",
]

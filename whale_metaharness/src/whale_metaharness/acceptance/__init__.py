"""Acceptance rules: which harness a search goes on with, and which one a phase hands on.

``argmax`` is the published rule; ``confirmed`` and ``halving`` survive noise. What each costs and
how often it errs: ``docs/acceptance.md``.
"""

from __future__ import annotations

from whale_metaharness.acceptance.argmax import Argmax, accept
from whale_metaharness.acceptance.confirmed import Confirmed
from whale_metaharness.acceptance.halving import Halving
from whale_metaharness.acceptance.ranking import merits, rank, solved
from whale_metaharness.acceptance.rule import Decision, Measures, Rule, Terms
from whale_metaharness.config import Config

__all__ = [
    "Argmax",
    "Confirmed",
    "Decision",
    "Halving",
    "Measures",
    "Rule",
    "Terms",
    "accept",
    "make_rule",
    "merits",
    "rank",
    "solved",
]


def make_rule(config: Config, tie_breaks: tuple[str, ...], measures: Measures) -> Rule:
    """Return the configured rule for one phase."""
    terms = Terms(tie_breaks, config.tie_costs, config.minimum_gain)
    match config.acceptance:
        case "confirmed":
            return Confirmed(
                terms,
                measures,
                best=config.confirm_best,
                examples=config.confirm_examples,
                draws=config.confirm_draws,
                error_rate=config.error_rate,
            )
        case "halving":
            return Halving(terms, measures)
    return Argmax(terms, measures)

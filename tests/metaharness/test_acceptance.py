from __future__ import annotations

import math

import pytest
from metaharness_fakes import score_of

from whale_core.roles import Score
from whale_metaharness.acceptance import Terms, accept

NAN = math.nan


@pytest.mark.parametrize(
    ("fresh", "incumbent", "accepted", "reason"),
    [
        (
            [("h0003", score_of(3 / 64)), ("h0007", score_of(0.125))],
            "h0003",
            "h0007",
            "h0007 solved 12.5 % of 64, before 4.7 %",
        ),
        (
            [("h0003", score_of(0.5)), ("h0007", score_of(0.125))],
            "h0003",
            "h0003",
            "kept h0003: nothing scored higher",
        ),
        (  # revert: the best of the archive, not the newest
            [("h0001", score_of(0.5)), ("h0002", score_of(0.25)), ("h0003", score_of(0.375))],
            "h0002",
            "h0001",
            "h0001 solved 50.0 % of 64, before 25.0 %",
        ),
        (  # tie on reward: the named metrics in turn, before calls
            [
                ("h0000", score_of(0.0, f=0.5, g=0.1, calls=1)),
                ("h0001", score_of(0.0, f=0.5, g=0.3, calls=9)),
            ],
            "h0000",
            "h0001",
            "h0001 solved 0.0 % of 64 as h0000 did, with more g: 0.3, before 0.1",
        ),
        (
            [("h0000", score_of(0.5, f=0.5, calls=1.5)), ("h0001", score_of(0.5, f=0.5, calls=1))],
            "h0000",
            "h0001",
            "h0001 solved 50.0 % of 64 as h0000 did, with fewer model calls: 1.00, before 1.50",
        ),
        (  # everything equal: the incumbent, although others are older
            [("h0000", score_of(0.5)), ("h0001", score_of(0.5)), ("h0002", score_of(0.5))],
            "h0001",
            "h0001",
            "kept h0001: nothing scored higher",
        ),
        (  # everything equal among the challengers: the older
            [("h0000", score_of(0.1)), ("h0001", score_of(0.5)), ("h0002", score_of(0.5))],
            "h0000",
            "h0001",
            "h0001 solved 50.0 % of 64, before 10.0 %",
        ),
        ([], "h0000", "h0000", "kept h0000: no harness has a score"),
        (
            [("h0000", score_of(NAN, scored=0)), ("h0001", score_of(0.0))],
            "h0000",
            "h0001",
            "h0001 solved 0.0 % of 64; h0000 has no score",
        ),
        (
            [("h0000", score_of(0.0, f=NAN)), ("h0001", score_of(0.0, f=0.1))],
            "h0000",
            "h0001",
            "h0001 solved 0.0 % of 64 as h0000 did, with more f: 0.1, before undefined",
        ),
    ],
)
def test_published_acceptance(
    fresh: list[tuple[str, Score]], incumbent: str, accepted: str, reason: str
) -> None:
    decision = accept(fresh, incumbent, Terms(("f", "g")))
    assert (decision.id, decision.reason) == (accepted, reason)


def test_metrics_that_are_not_named_do_not_count() -> None:
    fresh = [("h0000", score_of(0.0, f=0.1)), ("h0001", score_of(0.0, f=0.9))]
    assert accept(fresh, "h0000", Terms()).id == "h0000"

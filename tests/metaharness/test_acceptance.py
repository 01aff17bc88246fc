from __future__ import annotations

import math

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
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


@pytest.mark.parametrize(
    ("gain", "minimum", "accepted"),
    [(4, 0.0, True), (4, 4 / 64, True), (4, 5 / 64, False), (0, 0.5, True)],
)
def test_a_minimum_gain_is_asked_of_rewards_and_never_of_ties(
    gain: int, minimum: float, accepted: bool
) -> None:
    old, new = score_of(0.25, f=0.1), score_of(0.25 + gain / 64, f=0.2)
    decision = accept([("h0000", old), ("h0001", new)], "h0000", Terms(("f",), (), minimum))
    assert (decision.id == "h0001") is accepted
    if not accepted:
        assert decision.reason == (
            "kept h0000: h0001 solved 31.2 % of 64, before 25.0 %, less than 7.8 points more"
        )


def test_tokens_separate_what_calls_do_not_where_they_are_named() -> None:
    old = score_of(0.5)
    fresh = [("h0000", old), ("h0001", evolve(old, sampled_tokens=320))]
    assert accept(fresh, "h0000", Terms()).id == "h0000"  # published: calls only
    decision = accept(fresh, "h0000", Terms(costs=("calls", "tokens")))
    assert decision.id == "h0001"
    assert decision.reason == (
        "h0001 solved 50.0 % of 64 as h0000 did, with fewer sampled tokens: 5.00, before 10.00"
    )
    dearer = evolve(fresh[1][1], mean_calls=1.5)
    assert accept([fresh[0], ("h0001", dearer)], "h0000", Terms(costs=("calls", "tokens"))).id == (
        "h0000"
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=8
    ),
    st.integers(0, 7),
    st.sampled_from([0.0, 1 / 64, 3 / 64]),
)
def test_nothing_better_is_passed_over_and_nothing_worse_is_accepted(
    made: list[tuple[int, int, int]], place: int, minimum: float
) -> None:
    terms = Terms(("f",), ("calls",), minimum)
    scores = {
        f"h{n:04d}": score_of(mean / 64, f=float(f), calls=float(calls))
        for n, (mean, f, calls) in enumerate(made)
    }
    incumbent = list(scores)[place % len(scores)]
    decision = accept(list(scores.items()), incumbent, terms)
    new, old = scores[decision.id], scores[incumbent]
    best = max(terms.rank(score) for score in scores.values())
    if decision.id == incumbent:
        assert decision.reason.startswith(f"kept {incumbent}")
        top = max(scores.values(), key=terms.rank)
        assert terms.rank(old) == best or 0 < top.mean - old.mean < minimum
    else:
        assert terms.rank(new) == best > terms.rank(old)
        assert new.mean == old.mean or new.mean - old.mean >= minimum - 1e-12
    # Asked again with what it accepted, it stays.
    assert accept(list(scores.items()), decision.id, terms).id == decision.id

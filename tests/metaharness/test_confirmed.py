"""``confirmed``: what is tested, on what, how sure it must be, and what luck can do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from metaharness_fakes import (
    EXAMPLES,
    FakeContext,
    ScriptedProposer,
    conclude,
    h,
    run,
    score_of,
    search,
)

from whale_core.abilities import Concludes, PlansConclusion
from whale_core.roles import Candidate, Harness, Score, Workspace
from whale_core.run.archive import CONFIRMATION
from whale_core.span import Span
from whale_metaharness.acceptance import Terms
from whale_metaharness.acceptance.confirmed import decide, paired_test, rate_p
from whale_metaharness.archive import Archive
from whale_metaharness.config import Config
from whale_metaharness.workspace import read_state


def candidate(lucky: int, true: int) -> Candidate:
    """One that scores ``lucky`` / 64 when it is selected and ``true`` / 64 on fresh draws."""
    return Candidate(h(f"LUCKY = {lucky}\nTRUE = {true}"), "h0000", "axis", "why", "what")


def said(harness: Harness, name: str) -> float:
    found = re.search(rf"{name} = (\d+)", harness.source)
    return int(found[1]) / 64 if found else 8 / 64


def context(folder: Path, **facts: object) -> FakeContext:
    return FakeContext(
        folder,
        means=lambda harness: (said(harness, "LUCKY"), 0.5),
        truth=lambda harness: (said(harness, "TRUE"), 0.5),
        **facts,  # type: ignore[arg-type]
    )


SCRIPT = [[candidate(20, 8), candidate(9, 9)], [candidate(18, 24)]]


def test_argmax_takes_the_lucky_one_and_confirmed_the_better_one(tmp_path: Path) -> None:
    fooled = run(search(ScriptedProposer(SCRIPT)), context(tmp_path / "a"), 3)
    assert fooled[-1].accepted.name == "h0001"  # 31 % by luck, in truth as good as h0000
    engine = search(ScriptedProposer(SCRIPT), acceptance="confirmed", confirm_best=2)
    assert isinstance(engine, Concludes)
    made = context(tmp_path / "b")
    found = conclude(engine, made, 3)
    assert found is not None and found.accepted.name == "h0003"
    assert found.accepted_reason == (
        "h0003 is confirmed on 64 unseen examples × 2: 37.5 % of 128, beside 12.5 % of h0000: gain "
        "+25.0 points, 95 % interval +15.9 to +37.1, p = 1.5e-05 (at most 0.1 / 2)"
    )
    assert [report.harness.name for report in found.candidates] == ["h0000", "h0001", "h0003"]
    assert made.pools[-1] == ["h0000", "h0001", "h0003"]  # one pool: common draw keys


def test_until_the_end_the_incoming_harness_stays_and_proposers_get_the_leader(
    tmp_path: Path,
) -> None:
    leaders = []

    class Curious(ScriptedProposer):
        async def propose(self, workspace: Workspace):  # type: ignore[no-untyped-def]
            leaders.append(read_state(workspace).accepted)
            return await super().propose(workspace)

    engine = search(Curious([*SCRIPT, []]), acceptance="confirmed")
    first, second, third, fourth = run(engine, context(tmp_path), 4)
    assert {each.accepted.name for each in (first, second, third, fourth)} == {"h0000"}
    assert leaders == ["h0000", "h0001", "h0001"]
    assert first.accepted_reason == "the incoming h0000 solved 12.5 % of 64"
    assert second.accepted_reason == (
        "h0001 solved 31.2 % of 64, before 12.5 %; h0000 stays until the phase's end, when that "
        "must be confirmed"
    )
    # The signal that ends phases: does the search still find higher scores?
    assert [each.best for each in (first, second, third)] == [8 / 64, 20 / 64, 20 / 64]


def test_what_is_not_better_on_fresh_draws_is_not_accepted_and_the_reason_says_so(
    tmp_path: Path,
) -> None:
    engine = search(ScriptedProposer([[candidate(30, 9)]]), acceptance="confirmed")
    found = conclude(engine, context(tmp_path), 2)
    assert found is not None and found.accepted.name == "h0000"
    assert found.accepted_reason == (
        "kept h0000: h0001 is not confirmed on 64 unseen examples × 2: 14.1 % of 128, beside "
        "12.5 % of h0000: gain +1.6 points, 95 % interval -4.4 to +8.5, p = 0.5 (not 0.1)"
    )


def test_a_gain_below_the_minimum_is_not_accepted_however_sure_it_is(tmp_path: Path) -> None:
    settings = {"acceptance": "confirmed", "minimum_gain": 0.3}
    found = conclude(
        search(ScriptedProposer([[candidate(18, 24)]]), **settings), context(tmp_path), 2
    )
    assert found is not None and found.accepted.name == "h0000"
    assert found.accepted_reason.endswith("(less than 30.0 points)")


def test_where_nothing_is_ahead_nothing_is_spent(tmp_path: Path) -> None:
    made = context(tmp_path)
    engine = search(
        ScriptedProposer([[candidate(8, 60), candidate(3, 60)]]), acceptance="confirmed"
    )
    assert conclude(engine, made, 2) is None
    assert "confirm" not in [asked[0] for asked in made.draws]
    assert (
        conclude(search(ScriptedProposer([[candidate(60, 60)]])), context(tmp_path / "b"), 2)
        is None
    )


def test_examples_are_those_no_candidate_was_scored_on_then_unshown_ones(tmp_path: Path) -> None:
    never = {example.id for example in EXAMPLES[64:]}

    def asked(**settings: int) -> list[str]:
        made = context(tmp_path / str(settings))
        engine = search(ScriptedProposer([[candidate(20, 8)]]), acceptance="confirmed", **settings)
        conclude(engine, made, 2)
        purpose, first, draws, names = made.draws[-1]
        assert (purpose, draws) == ("confirm", 2) and first >= 64  # numbers no other draw has
        return names

    assert set(asked(confirm_examples=10)) < never
    assert set(asked()) == never and len(asked()) == 64  # as many as are scored
    more = asked(confirm_examples=500)
    assert set(more[:64]) == never and more[64:] == [example.id for example in EXAMPLES[32:64]]
    shown = {example.id for example in EXAMPLES[:32]}
    assert not shown & set(more)


def test_confirmation_scores_are_kept_apart_and_never_select(tmp_path: Path) -> None:
    engine = search(ScriptedProposer(SCRIPT), acceptance="confirmed")
    conclude(engine, context(tmp_path), 3)
    archive = Archive.open(tmp_path)
    kinds = [record.kind for record in archive["h0001"].scores]
    assert kinds == ["score", "confirm"]
    assert dict(archive.fresh(0, "w0"))["h0001"].mean == 20 / 64
    confirmed = archive["h0001"].score_in(0, "w0", CONFIRMATION)
    assert confirmed is not None and confirmed.mean == 8 / 64
    assert archive["h0001"].score_in(0, "w1", CONFIRMATION) is None  # stale as any score


def test_a_phase_searched_again_concludes_the_same(tmp_path: Path) -> None:
    settings = {"acceptance": "confirmed", "confirm_best": 2}
    engine = search(ScriptedProposer([[candidate(10, 9)]]), **settings)
    conclude(engine, context(tmp_path), 2)
    mark = json.loads(json.dumps(engine.mark()))
    later = {"weights_id": "w1", "cycle": 1, "phase": 3}

    def searched() -> object:
        engine = search(ScriptedProposer(SCRIPT), **settings)
        engine.restore(tmp_path, mark)
        found = conclude(engine, context(tmp_path, **later), 3)
        files = {path: path.read_bytes() for path in sorted(tmp_path.glob("h*/*"))}
        return found and evolve(found, seconds=0.0), files

    first = searched()
    assert first == searched()
    engine = search(ScriptedProposer(SCRIPT), **settings)  # killed before it concluded
    engine.restore(tmp_path, mark)
    run(engine, context(tmp_path, **later), 3)
    assert first == searched()


def test_behaviour_decides_where_no_reward_differs_and_only_if_it_clearly_does(
    tmp_path: Path,
) -> None:
    """With weights that solve nothing yet, better-formed replies are all a search can find."""

    def concluded(name: str, better: float) -> str:
        def rates(harness: Harness) -> tuple[float, float]:
            return 0.0, better if "LUCKY" in harness.source else 0.1

        made = FakeContext(tmp_path / name, means=rates)
        engine = search(ScriptedProposer([[candidate(1, 1)]]), acceptance="confirmed")
        found = conclude(engine, made, 2)
        assert found is not None
        return found.accepted_reason

    assert concluded("clear", 0.6).startswith("h0001 is confirmed")
    assert concluded("clear", 0.6).endswith(", by format_rate, since no reward differs")
    assert concluded("slight", 0.12).startswith("kept h0000")


def test_equal_in_all_but_cost_the_cheaper_one_is_accepted() -> None:
    old = score_of(0.5, f=0.5, calls=2.0)
    for new, costs, wins in [
        (score_of(0.5, f=0.5, calls=1.0), ("calls",), True),
        (score_of(0.5, f=0.5, calls=3.0), ("calls", "tokens"), False),
        (evolve(old, sampled_tokens=600), ("calls",), False),
        (evolve(old, sampled_tokens=600), ("calls", "tokens"), True),
    ]:
        decision = decide({"a": old, "b": new}, Terms(("f",), costs), 0.1, 1)
        assert (decision.id == "b") is wins
        assert ("cheaper" in decision.reason) is wins


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40),
    st.sampled_from([0.01, 0.05, 0.1, 0.5]),
    st.sampled_from([0.0, 0.02, 0.2]),
    st.integers(1, 4),
)
def test_accepted_is_only_what_gains_enough_and_passes_its_share_of_the_error_rate(
    draws: list[tuple[int, int]], error_rate: float, minimum: float, copies: int
) -> None:
    def score(side: int) -> Score:
        rewards = {
            f"e{n}": tuple(float(k < each[side]) for k in range(3)) for n, each in enumerate(draws)
        }
        mean = float(np.mean([np.mean(values) for values in rewards.values()]))
        return evolve(score_of(mean, scored=3 * len(draws)), rewards=rewards)

    old, new = score(0), score(1)
    terms = Terms(minimum_gain=minimum)
    scores = {"old": old, **{f"new{n}": new for n in range(copies)}}
    test = paired_test(new, old, terms, 3)
    assert test.gain.mean == pytest.approx(new.mean - old.mean)
    decision = decide(scores, terms, error_rate, 3)
    better = new.mean - old.mean >= max(minimum, 1e-9) - 1e-12
    assert (decision.id != "old") is (better and test.p <= error_rate / copies)
    swapped = decide({"new": new, "old": old}, Terms(), error_rate, 3)
    assert not (decision.id != "old" and swapped.id == "old")  # never both ways


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 500))
def test_the_test_of_rates_is_one_sided_and_symmetric(x: int, y: int, n: int) -> None:
    a, b = min(x, n) / n, min(y, n) / n
    p = rate_p(a, b, n)
    assert 0.0 <= p <= 1.0
    if a > b:
        assert p < 0.5 or p == pytest.approx(0.5)
        assert rate_p(b, a, n) == pytest.approx(1 - p)
    assert rate_p(a, 1.5, n) == 1.0  # no rate


def test_the_plan_says_what_a_conclusion_costs() -> None:
    engine = search(ScriptedProposer([]), acceptance="confirmed", confirm_best=2, confirm_draws=3)
    assert isinstance(engine, PlansConclusion)
    plan = engine.planned_conclusion()
    assert plan is not None
    assert (plan.harnesses, plan.examples, plan.draws) == (Span(0, 3), None, 3)
    assert search(ScriptedProposer([])).planned_conclusion() is None


@pytest.mark.parametrize(
    "wrong",
    [{"error_rate": 0.0}, {"error_rate": 0.6}, {"acceptance": "best"}, {"tie_costs": ("usd",)}],
)
def test_settings_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Config(**wrong)  # type: ignore[arg-type]


def test_no_proposer_reads_what_confirmed_a_choice(tmp_path: Path) -> None:
    """Neither that phase's sessions nor a later one's learn how unseen examples did."""
    engine = search(ScriptedProposer(SCRIPT), acceptance="confirmed")
    assert conclude(engine, context(tmp_path), 3) is not None
    copies: list[Archive] = []

    class Reader(ScriptedProposer):
        async def propose(self, workspace: Workspace):  # type: ignore[no-untyped-def]
            copies.append(Archive.open(workspace.archive))
            return await super().propose(workspace)

    run(search(Reader([[]]), acceptance="confirmed"), context(tmp_path, phase=1), 2)
    kept = [r for entry in Archive.open(tmp_path).entries for r in entry.scores]
    assert {record.kind for record in kept} == {"score", "confirm"}
    (copy,) = copies
    records = [record for entry in copy.entries for record in entry.scores]
    assert len(records) == 5 and {record.kind for record in records} == {"score"}
    assert copy.mark() == {"entries": 4, "scores": 5}
    scored = {example.id for example in EXAMPLES[:64]}
    assert all(set(record.score.rewards) <= scored for record in records)

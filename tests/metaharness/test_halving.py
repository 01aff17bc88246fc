"""``halving``: equal rollouts, fresh draws, and the best is left."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from attrs import define
from hypothesis import given
from hypothesis import strategies as st
from metaharness_fakes import H0, FakeContext, ScriptedProposer, h, run, search

from whale_core.keys import content_hash
from whale_core.records import Example
from whale_core.roles import Candidate, Harness, Score
from whale_metaharness.acceptance import Halving, Terms, make_rule
from whale_metaharness.acceptance.halving import pooled, rounds_of
from whale_metaharness.archive import Archive
from whale_metaharness.config import Config


@given(st.integers(2, 40), st.integers(1, 5000))
def test_rounds_halve_to_one_and_make_no_more_rollouts_than_there_are(
    harnesses: int, rollouts: int
) -> None:
    rounds = rounds_of(harnesses, rollouts)
    assert len(rounds) == math.ceil(math.log2(harnesses)) and rounds[0][0] == harnesses
    assert all(b[0] == -(-a[0] // 2) for a, b in pairwise(rounds))
    assert -(-rounds[-1][0] // 2) == 1
    assert all(each >= 1 for _, each in rounds)
    spent = sum(left * each for left, each in rounds)
    assert spent <= max(rollouts, 2 * harnesses * len(rounds))
    if rollouts >= harnesses * len(rounds):
        assert spent <= rollouts
        assert rollouts - spent < sum(left for left, _ in rounds) * len(rounds)


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=8), min_size=1, max_size=6))
def test_pooling_parts_is_scoring_all_their_rollouts_at_once(parts: list[list[bool]]) -> None:
    scores = [
        Score(
            "h",
            "w",
            sum(part) / len(part),
            len(part),
            1,
            {f"e{n}": (float(each),) for n, each in enumerate(part)},
            mean_calls=float(k + 1),
            sampled_tokens=10 * len(part),
            metrics={"f": float(k)},
            reasons={"calls": 1},
        )
        for k, part in enumerate(parts)
    ]
    whole = pooled(scores)
    assert whole.scored == sum(map(len, parts)) and whole.not_scored == len(parts)
    by_example: dict[str, list[float]] = {}
    for score in scores:
        for name, values in score.rewards.items():
            by_example.setdefault(name, []).extend(values)
    assert {name: list(values) for name, values in whole.rewards.items()} == by_example
    means = [sum(values) / len(values) for values in by_example.values()]
    assert whole.mean == pytest.approx(sum(means) / len(means))
    calls = sum((k + 1) * len(part) for k, part in enumerate(parts)) / whole.scored
    assert whole.mean_calls == pytest.approx(calls)
    assert whole.metrics["f"] == pytest.approx(calls - 1)
    assert whole.sampled_tokens == 10 * whole.scored and whole.reasons == {"calls": len(parts)}


@define
class Counted:
    """Measures whose scores are the harnesses' true means; counts every draw that is asked for."""

    means: dict[str, float]
    asked: Counter[tuple[str, str, int]]
    kept: dict[str, Score]
    examples: tuple[Example, ...]
    unseen: tuple[Example, ...] = ()
    names: tuple[str | int, ...] = (0, 1)

    async def score(
        self,
        ids: Sequence[str],
        examples: Sequence[Example] | None = None,
        draws: int | None = None,
        purpose: str = "score",
        first_draw: int = 0,
    ) -> list[Score]:
        on, times, made = examples or self.examples, draws or 2, []
        for name in ids:
            for example in on:
                for draw in range(first_draw, first_draw + times):
                    self.asked[name, example.id, draw] += 1
            rewards = {example.id: (self.means[name],) * times for example in on}
            made.append(Score(name, "w", self.means[name], len(on) * times, 0, rewards, 1.0, 1))
        return made

    def record(self, identifier: str, score: Score, kind: str = "score") -> None:
        self.kept[identifier] = score

    def fresh(self) -> list[tuple[str, Score]]:
        return sorted(self.kept.items())


@given(
    st.lists(st.lists(st.integers(0, 8), max_size=5), min_size=1, max_size=4), st.integers(12, 40)
)
def test_equal_rollouts_fresh_draws_and_the_best_is_left(
    iterations: list[list[int]], size: int
) -> None:
    names = iter(range(1, 100))
    ids = [[f"h{next(names):04d}" for _ in each] for each in iterations]
    means = {"h0000": 3 / 8} | {
        name: value / 8
        for each, values in zip(ids, iterations, strict=True)
        for name, value in zip(each, values, strict=True)
    }
    examples = tuple(Example(f"e{n}", {}, f"g{n}") for n in range(size))
    measures = Counted(means, Counter(), {}, examples)
    rule = Halving(Terms(), measures)

    async def phase() -> None:
        await rule.start(["h0000"])
        assert sum(measures.asked.values()) == 2 * size
        best = "h0000"
        for each in ids:
            before = sum(measures.asked.values())
            await rule.judge(each)
            # No more than argmax gives the candidates: two draws of every example.
            assert sum(measures.asked.values()) - before <= len(each) * 2 * size
            top = max(means[name] for name in (best, *each))
            best = next(name for name in (best, *each) if means[name] == top)
            assert rule.accepted.id == rule.leader == best
            assert rule.best == means[best]
        assert await rule.conclude() is None

    asyncio.run(phase())
    assert set(measures.asked.values()) <= {1}  # no draw key twice


def scored(mean: int) -> Candidate:
    return Candidate(h(f"MEAN = {mean}"), "h0000", "axis", "why", f"to {mean}")


def means(harness: Harness) -> tuple[float, float]:
    _, found, rest = harness.source.partition("MEAN = ")
    return (int(rest.split()[0]) / 64 if found else 8 / 64), 0.5


def test_a_phase_by_halving(tmp_path: Path) -> None:
    context = FakeContext(tmp_path, means=means)
    script = [[scored(1), scored(16), scored(32)], []]
    first, second, third = run(search(ScriptedProposer(script), acceptance="halving"), context, 3)
    assert first.best == 8 / 64 and first.accepted.name == "h0000"
    assert second.accepted.name == "h0003" and second.best == third.best
    assert second.accepted_reason.startswith(
        "h0003 won the halving (4 on 24, then 2 on 48 rollouts each): h0003 solved 46.9 % of 72; "
        "on the rollouts that both made 50.0 %, h0000 12.5 % of 24"
    )
    assert (
        third.accepted_reason == "kept h0003: nothing was tried; the proposer had no new candidate"
    )
    archive = Archive.open(tmp_path)
    assert [record.score.scored for record in archive["h0000"].scores] == [64, 24]
    assert [record.score.scored for record in archive["h0003"].scores] == [72]


def test_a_minimum_gain_holds_for_halving_too(tmp_path: Path) -> None:
    engine = search(ScriptedProposer([[scored(16)]]), acceptance="halving", minimum_gain=0.25)
    _, second = run(engine, FakeContext(tmp_path, means=means), 2)
    assert second.accepted.name == "h0000"
    assert second.accepted_reason.endswith(", less than 25.0 points more")


def test_the_rule_is_the_one_that_is_set() -> None:
    measures = Counted({}, Counter(), {}, ())
    for name in ("argmax", "confirmed", "halving"):
        rule = make_rule(Config(acceptance=name), (), measures)
        assert type(rule).__name__.lower() == name


def test_the_best_of_earlier_phases_are_scored_again(tmp_path: Path) -> None:
    """They are candidates under the new weights at once; rejected ones and ties are not."""
    script = [[scored(30), Candidate("class (", None), scored(20)], [scored(2)]]
    run(search(ScriptedProposer(script)), FakeContext(tmp_path, means=means), 3)
    later = {"weights_id": "w1", "cycle": 1, "phase": 3}
    turned = FakeContext(
        tmp_path,
        harness=Harness(content_hash(H0), H0, "h0000"),
        means=lambda harness: (0.0 if "MEAN = 30" in harness.source else means(harness)[0], 0.5),
        **later,
    )
    engine = search(ScriptedProposer([]), rescore=2)
    (first,) = run(engine, turned, 1)
    assert turned.pools == [["h0000", "h0001", "h0003"]]  # one pool
    assert [report.harness.name for report in first.candidates] == ["h0000", "h0001", "h0003"]
    assert first.accepted.name == "h0003"  # 31 % now; the 47 % of h0001 are history
    assert first.accepted_reason == "h0003 solved 31.2 % of 64, before 12.5 %"
    assert engine.planned_iteration(1, True).scored.most == 3
    assert engine.planned_iteration(1, False).scored.most == 1  # no earlier phase

"""What is trained on of a step's rollouts: each option alone, and all in their order."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from rsft_kit import Context, LendingEngine, group, rollout

from whale_core.keys import generator
from whale_core.plugins import Setup
from whale_core.records import Call, Example, Outcome, Row, ToolEvent, Trajectory
from whale_core.roles import Group, Harness
from whale_core.rollout.rows import build_rows
from whale_rsft.accepted import accepted_of, all_passed, is_accepted, without_rejected
from whale_rsft.config import Config
from whale_rsft.rsft import RSFT, mixture

CONFIG = Config()
OUTCOMES = {"pass": 1.0, "fail": 0.0, "died": None, "lost": None}


def call(prompt: list[int], sampled: list[int], rejected: bool = False) -> Call:
    return Call(
        prompt_ids=np.array(prompt, np.int32),
        token_ids=np.array(sampled, np.int32),
        logprobs=-np.arange(1, 1 + len(sampled), dtype=np.float32),
        text="",
        finish_reason="end",
        weights_id="w0",
        rejected=rejected,
    )


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    """An episode of up to four calls that append, begin anew, are rejected or get no token."""
    calls: list[Call] = []
    context: list[int] = [1]
    for _ in range(draw(st.integers(1, 4))):
        sampled = draw(st.lists(st.integers(2, 4), max_size=3))
        calls.append(call(context, sampled, draw(st.booleans())))
        context = [*context, *sampled, 9] if draw(st.booleans()) else [1, len(calls) + 9]
    outcome = draw(st.sampled_from(sorted(OUTCOMES)))
    made = rollout(OUTCOMES[outcome], outcome=Outcome.NOT_SCORED if outcome == "lost" else None)
    return evolve(made, calls=tuple(calls))


@st.composite
def groups(draw: st.DrawFn) -> list[Group]:
    """A step's rollouts with their rows, as the core makes them."""
    made = []
    size = draw(st.integers(1, 5))
    for place in range(draw(st.integers(1, 3))):
        rolled = tuple(draw(trajectories()) for _ in range(size))
        rows = tuple(build_rows(t.calls, place * size + i) for i, t in enumerate(rolled))
        made.append(Group(Example(f"p{place}", {}, ""), rolled, rows))
    return made


def same(left: Row, right: Row) -> bool:
    return left.trajectory == right.trajectory and all(
        np.array_equal(getattr(left, name), getattr(right, name))
        for name in ("input_ids", "loss_mask", "logprobs")
    )


def numbers(trained: list[tuple[Row, ...]]) -> list[int]:
    return [rows[0].trajectory for rows in trained if rows]


def trained(rows: tuple[Row, ...]) -> list[list[int]]:
    return [row.input_ids[row.loss_mask == 1].tolist() for row in rows]


@settings(max_examples=30)
@given(groups())
def test_without_options_all_accepted_rows_are_trained_as_they_are(made: list[Group]) -> None:
    wanted = [
        rows
        for each in made
        for trajectory, rows in zip(each.trajectories, each.rows, strict=True)
        if is_accepted(trajectory, 0.5)
    ]
    found = accepted_of(made, CONFIG)
    assert len(found.trajectories) == len(wanted) and found.left_out == {}
    assert all(a is b for a, b in zip(found.trajectories, wanted, strict=True))


@settings(max_examples=30)
@given(groups(), st.integers(1, 3))
def test_at_most_so_many_of_a_prompt(made: list[Group], most: int) -> None:
    every = [accepted_of([each], CONFIG).trajectories for each in made]
    found = accepted_of(made, evolve(CONFIG, max_accepted_per_prompt=most))
    assert found.trajectories == [rows for each in every for rows in each[:most]]
    lost = sum(len(each) for each in every) - len(found.trajectories)
    assert found.left_out == {"left_out_over_limit": lost}


@settings(max_examples=30)
@given(groups())
def test_prompts_that_all_passed_are_dropped(made: list[Group]) -> None:
    found = accepted_of(made, evolve(CONFIG, drop_all_pass=True))
    kept = [each for each in made if not all_passed(each, 0.5)]
    assert found.trajectories == accepted_of(kept, CONFIG).trajectories
    assert found.left_out == {"left_out_all_pass": len(made) - len(kept)}


@pytest.mark.parametrize(
    ("outcomes", "dropped"),
    [
        (["pass", "pass"], True),
        (["pass", "lost"], True),  # what was not scored says nothing
        (["pass", "fail"], False),
        (["pass", "died"], False),
        (["lost", "lost"], False),
    ],
)
def test_what_counts_as_all_passed(outcomes: list[str], dropped: bool) -> None:
    rolled = [
        rollout(OUTCOMES[each], i, Outcome.NOT_SCORED if each == "lost" else None)
        for i, each in enumerate(outcomes)
    ]
    assert all_passed(Group(Example("p", {}, ""), tuple(rolled)), 0.5) is dropped


@settings(max_examples=30)
@given(groups())
def test_rejected_calls_are_context_and_nothing_else(made: list[Group]) -> None:
    """Of the other calls every sampled token is trained once, of these none; no row changes."""
    for each in made:
        for trajectory, rows in zip(each.trajectories, each.rows, strict=True):
            found = without_rejected(trajectory, rows)
            used = [c.token_ids.tolist() for c in trajectory.calls if not c.rejected]
            assert sorted(chain(*trained(found))) == sorted(chain(*used))
            for row in found:
                (before,) = [r for r in rows if np.array_equal(r.input_ids, row.input_ids)][:1]
                assert (row.loss_mask <= before.loss_mask).all() and row.loss_mask.any()
                assert np.array_equal(row.logprobs, before.logprobs)
                assert row.trajectory == before.trajectory


def test_calls_are_rejected_by_the_harness_or_by_the_environment() -> None:
    def event(after: int, error: str | None) -> ToolEvent:
        return ToolEvent("move", {}, None, after, error)

    calls = tuple(call([1], [2]) for _ in range(5))
    made = evolve(rollout(1.0), calls=(evolve(calls[0], rejected=True), *calls[1:]))
    events = (event(0, "early"), event(2, "illegal"), event(3, "illegal"), event(3, None))
    assert evolve(made, events=events).rejected_calls == {0, 1}
    assert made.rejected_calls == {0}


@settings(max_examples=30)
@given(groups(), st.integers(1, 12))
def test_rows_that_are_too_long_are_left_out_whole(made: list[Group], most: int) -> None:
    every = accepted_of(made, CONFIG).trajectories
    found = accepted_of(made, evolve(CONFIG, max_length=most))
    kept = [row for rows in found.trajectories for row in rows]
    wanted = [row for rows in every for row in rows if len(row.input_ids) <= most]
    assert len(kept) == len(wanted) and all(map(same, kept, wanted))
    lost = sum(len(rows) for rows in every) - len(wanted)
    assert found.left_out == {"left_out_too_long": lost}
    assert all(found.trajectories) or not all(every)


@settings(max_examples=30)
@given(groups())
def test_duplicates_of_one_prompt_are_trained_once(made: list[Group]) -> None:
    found = accepted_of(made, evolve(CONFIG, deduplicate=True))
    for each in made:
        every = accepted_of([each], CONFIG).trajectories
        once = accepted_of([each], evolve(CONFIG, deduplicate=True)).trajectories
        told = [trained(rows) for rows in once]
        assert all(told.count(sampled) == 1 for sampled in told)
        assert all(trained(rows) in told for rows in every)
        assert numbers(once) == sorted(numbers(once))
    lost = len(accepted_of(made, CONFIG).trajectories) - len(found.trajectories)
    assert found.left_out == {"left_out_duplicate": lost}


@settings(max_examples=30)
@given(groups(), st.integers(1, 3), st.integers(4, 12))
def test_all_options_at_once(made: list[Group], most: int, length: int) -> None:
    config = Config(
        max_accepted_per_prompt=most,
        drop_all_pass=True,
        exclude_rejected=True,
        max_length=length,
        deduplicate=True,
    )
    found = accepted_of(made, config)
    assert set(found.left_out) == {
        *("left_out_all_pass", "left_out_rejected", "left_out_too_long"),
        *("left_out_duplicate", "left_out_over_limit"),
    }
    size = len(made[0].trajectories)
    for place, each in enumerate(made):
        own = [rows for rows in found.trajectories if rows and rows[0].trajectory // size == place]
        assert len(own) <= most
        assert not (own and all_passed(each, 0.5))
    for rows in found.trajectories:
        assert all(len(row.input_ids) <= length and row.loss_mask.any() for row in rows)


# --- in a weight step


async def one_step(engine: LendingEngine, made: list[Group], **settings: Any) -> Any:
    config = Config(prompts=2, group_size=3, min_accepted=1, micro_tokens=40, **settings)
    context = Context(engine, [made])
    steps = RSFT(config, Setup(seed=0)).steps(context)  # type: ignore[arg-type]
    report = await anext(steps)
    await steps.aclose()
    return report, context


async def test_a_step_trains_on_what_is_left_and_tells_what_is_not(engine: LendingEngine) -> None:
    made = [group([1, 1, 1]), group([1, 0, 1], 1)]
    report, context = await one_step(engine, made, max_accepted_per_prompt=1)
    assert report.accepted == 2 and report.trained_tokens == 2 + 2
    assert report.reward == pytest.approx(5 / 6)  # the signal is of all rollouts
    assert report.metrics["left_out_over_limit"] == 3
    assert context.mixtures == [None]
    plan = RSFT(Config(prompts=4, group_size=8, minibatch=4, max_accepted_per_prompt=2), Setup(0))
    assert plan.planned_step().most_updates == 2


async def test_without_options_a_step_reports_no_more_than_before(engine: LendingEngine) -> None:
    report, _ = await one_step(engine, [group([1, 1, 1]), group([1, 0, 1], 1)])
    assert not any(name.startswith("left_out") for name in report.metrics)


async def test_each_prompt_is_rolled_out_under_one_of_the_best(engine: LendingEngine) -> None:
    made = [group([1, 1, 1]), group([1, 0, 1], 1)]
    _, context = await one_step(engine, made, harness_mixture=2)
    (chosen,) = context.mixtures
    assert chosen is not None and len(chosen) == 2
    assert {harness.id for harness in chosen} <= {"h0", "h1"}


def test_the_mixture_is_a_function_of_seed_step_and_prompt() -> None:
    best = [Harness("h0", ""), Harness("h1", ""), Harness("h2", "")]
    prompts = [Example(f"p{i}", {}, "") for i in range(300)]
    chosen = mixture(best, prompts, 0, 1)
    assert chosen is not None
    assert mixture(best, prompts[::-1], 0, 1) == chosen[::-1]  # company and order do not matter
    assert mixture(best, prompts, 0, 2) != chosen != mixture(best, prompts, 1, 1)
    shares = [sum(h is each for h in chosen) / len(chosen) for each in best]
    assert all(0.25 < share < 0.42 for share in shares)
    draw = generator(0, "harness-mixture", 1, "p7")
    assert chosen[7] is best[int(draw.integers(3))]
    assert mixture(best[:1], prompts, 0, 1) is None and mixture([], prompts, 0, 1) is None

"""Comparisons of run records: differences, p values, budgets, curves, tables, on made-up runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from whale_core.errors import InputError
from whale_core.evidence.analysis import Condition, compare, grouped
from whale_core.evidence.budget import Budget
from whale_core.evidence.collect import Point, RunRecord
from whale_core.evidence.inference import difference
from whale_core.evidence.report.compared import Compared
from whale_core.evidence.report.comparison_report import comparison_markdown, comparison_text
from whale_core.evidence.table import notes, rows
from whale_core.run.passes import pass_table
from whale_core.stats import Interval, crossed_test, crossed_variance

EXAMPLES = [f"e{index:03d}" for index in range(60)]


def point(phase: int, kind: str, length: int, rollouts: int, mean: float) -> Point:
    """A phase's end at which the pair scores ``mean``."""
    return Point(
        phase=phase,
        kind=kind,
        cycle=1,
        length=length,
        signals=(mean,) * length,
        rollouts=rollouts,
        tokens=10 * rollouts,
        usd=0.0,
        seconds=1.0,
        mean=mean,
        low=0.0,
        high=1.0,
        metrics={},
        harness="h",
        harness_id="h",
        weights_id="w",
    )


def record(name: str, seed: int, means: Sequence[float], rollouts: int = 100) -> RunRecord:
    """A finished run whose test examples score ``means``, and started from 0."""
    by_example = dict(zip(EXAMPLES, means, strict=False))
    mean = float(np.mean(means))
    corner = {"mean": mean, "draws": 4, "metrics": {"format": mean}, "harness_id": "h"}
    start = {**corner, "mean": 0.0, "weights_id": "w0"}
    return RunRecord(
        run=f"{name}-{seed}",
        plugin_set=name,
        seed=seed,
        settings_hash=f"hash-of-{name}",
        state="finished",
        domain="toy",
        seconds=10.0,
        spent={"rollouts": rollouts, "tokens": 10.0 * rollouts, "usd": 0.0},
        update_rollouts=rollouts // 2,
        points=(
            point(0, "start", 0, 10, 0.0),
            *(point(n, "weights", 3, n * rollouts // 3, mean * n / 3) for n in (1, 2, 3)),
        ),
        decided_at=3,
        pairs={"theta_h": {**corner, "weights_id": "w"}, "theta0_h0": start},
        means={"theta_h": by_example, "theta0_h0": dict.fromkeys(by_example, 0.0)},
    )


def condition(name: str, level: float, seeds: Sequence[int] = range(5), **more: Any) -> Condition:
    """A condition in which each example has its own difficulty, and each seed its own luck."""
    runs = []
    for seed in seeds:
        rng = np.random.default_rng([seed, 7])  # the same examples and luck in all conditions
        quarters = np.clip(np.round(4 * (level + rng.normal(0, 0.2, len(EXAMPLES)))) / 4, 0, 1)
        runs.append(record(name, seed, quarters.tolist()))
    return Condition(name, f"hash-of-{name}", tuple(runs), **more)


def test_a_clear_gain_is_told_with_size_interval_and_adjusted_p() -> None:
    made = compare([condition("low", 0.3), condition("high", 0.6), condition("same", 0.6)])
    told = {(pair.a.name, pair.b.name): pair for pair in made.pairs}
    assert set(told) == {("high", "low"), ("same", "low"), ("high", "same")}  # the better one first
    clear = told["high", "low"]
    assert clear.difference.interval is not None and clear.p_holm is not None
    assert clear.difference.interval.low > 0.2 and clear.p_holm < 0.001
    assert clear.difference.seeds == (0, 1, 2, 3, 4) and clear.difference.examples == 60
    assert told["high", "same"].p_holm == 1.0
    sentences = [each["sentence"] for each in made.as_json()["differences"]]
    assert sentences[0].startswith("high beats low by ") and sentences[0].endswith(
        " points "
        f"({100 * clear.difference.interval.low:.1f} to "
        f"{100 * clear.difference.interval.high:.1f}), p < 0.001 after Holm"
    )
    assert sentences[2] == (
        "no difference between high and same can be seen: 0.0 points "
        f"({100 * told['high', 'same'].difference.interval.low:.1f} to "  # type: ignore[union-attr]
        f"{100 * told['high', 'same'].difference.interval.high:.1f}), p 1.000 after Holm"  # type: ignore[union-attr]
    )


def test_the_gain_over_the_start_has_an_interval() -> None:
    made = condition("a", 0.5)
    (told,) = compare([made]).as_json()["conditions"]
    tested = difference(
        {run.seed: run.means["theta_h"] for run in made.runs},
        {run.seed: run.means["theta0_h0"] for run in made.runs},
    )
    assert tested.interval is not None and tested.of_conditions
    assert told["gain"]["mean"] == pytest.approx(told["mean"])  # they started from 0
    assert (told["gain"]["low"], told["gain"]["high"]) == (
        tested.interval.low,
        tested.interval.high,
    )
    same = [evolve(run, pairs=dict.fromkeys(run.pairs, run.final)) for run in made.runs]
    (told,) = compare([evolve(made, runs=tuple(same))]).as_json()["conditions"]
    assert told["gain"] == {"mean": 0.0, "low": 0.0, "high": 0.0}  # nothing moved


def test_it_is_plain_json_with_every_seed_and_every_example_once() -> None:
    conditions = [condition("a", 0.4), condition("b", 0.5, (0, 1))]
    made = compare(conditions, "whale compare a b", Budget("rollouts", 100.0), ("domain=toy",))
    told = json.loads(json.dumps(made.as_json()))
    assert (told["schema"], told["domain"], told["sets"]) == (2, "toy", ["a", "b"])
    assert told["command"] == "whale compare a b" and told["seeds"] == [0, 1, 2, 3, 4]
    a, b = told["conditions"]
    assert len(a["seeds"]) == 5 and a["across_seeds"]["low"] < a["mean"] < a["across_seeds"]["high"]
    assert len(b["seeds"]) == 2 and b["across_seeds"] is None  # a t interval from five on
    assert told["differences"][0]["seeds"].keys() == {"0", "1"}  # those that both have
    (examples,) = told["test_examples"].values()
    assert examples == EXAMPLES and len(told["runs"]) == 7
    run = told["runs"][6]
    assert (
        run["condition"] == "b"
        and run["phases"] == "W3 W3 W3"
        and len(run["means"]["theta_h"]) == 60
    )
    assert run["means"]["theta_h"] == list(conditions[1].runs[1].means["theta_h"].values())


def test_a_run_without_a_result_is_shown_and_not_counted() -> None:
    capped = evolve(
        record("a", 5, [1.0] * 60), state="stopped", reason="cap.rollouts=105 is reached", means={}
    )
    whole = condition("a", 0.4)
    with_it = evolve(whole, runs=(*whole.runs, capped))
    nothing = Condition("b", "h", (evolve(capped, state="failed", reason="no such model"),))
    told = compare([with_it, nothing]).as_json()
    assert told["conditions"][0]["mean"] == compare([whole]).as_json()["conditions"][0]["mean"]
    assert told["conditions"][0]["unfinished"] == [
        {"seed": 5, "state": "stopped", "reason": "cap.rollouts=105 is reached"}
    ]
    said = notes(told)
    assert "a, seed 5: stopped (cap.rollouts=105 is reached)" in said
    assert "b, seed 5: failed (no such model)" in said
    assert "a and b cannot be compared: no seed was finished in both" in said
    assert rows(told)[1][:2] == ("b", "no result")
    assert rows(told)[0][1].endswith(" %), 5 of 6 seeds")


def test_other_test_examples_are_not_compared() -> None:
    other = condition("b", 0.4)
    runs = [evolve(r, means={"theta_h": {"x": 0.5}, "theta0_h0": {"x": 0.0}}) for r in other.runs]
    made = compare([condition("a", 0.4), evolve(other, runs=tuple(runs))])
    assert made.pairs[0].difference.interval is None and made.pairs[0].p_holm is None
    assert notes(made.as_json())[-1].endswith("no test example is scored in all of their runs")


@pytest.mark.parametrize(
    ("planned", "spent", "words"),
    [
        (100, 100, ""),
        (104, 96, ""),
        (120, 100, "not at the budget of 100 rollouts: planned 120, 20 % above"),
        (100, 80, "not at the budget of 100 rollouts: spent 80, 20 % below"),
        (None, 80, "not at the budget of 100 rollouts: planned"),
    ],
)
def test_a_condition_off_the_budget_is_named(planned: int | None, spent: int, words: str) -> None:
    runs = tuple(record("a", seed, [0.5] * 60, rollouts=spent) for seed in range(2))
    count = None if planned is None else {"least": planned, "most": planned}
    made = compare([Condition("a", "h", runs, count)], budget=Budget("rollouts", 100.0)).as_json()
    (condition_,) = made["conditions"]
    said = [each for each in notes(made) if "budget" in each]
    if planned is None:
        assert condition_["budget"]["planned"] is None and condition_["budget"]["matched"] is False
        assert said == ["a: not at the budget of 100 rollouts: spent 80, 20 % below"]
        return
    assert said == ([f"a: {words}"] if words else [])
    matched = abs(planned - 100) <= 5
    assert f"{spent} ({'matched' if matched else 'not matched'})" in rows(made)[0]


@pytest.mark.parametrize(
    ("text", "cap"),
    [
        ("rollouts=1500", "cap.rollouts=1575"),
        ("tokens=1e6", "cap.tokens=1050000"),
        ("usd=2", "cap.usd=2.1"),
        ("seconds=240", "cap.seconds=252"),
    ],
)
def test_a_budget_caps_each_run_at_five_per_cent_more(text: str, cap: str) -> None:
    assert Budget.parse(text).cap == cap


@pytest.mark.parametrize(
    "text", ["1500", "rollouts", "rollouts=", "rollouts=-1", "hours=2", "usd=x"]
)
def test_a_wrong_budget_is_one_line(text: str) -> None:
    with pytest.raises(InputError, match=r"^--budget ") as refused:
        Budget.parse(text)
    assert "\n" not in str(refused.value)


def test_the_table_as_markdown(tmp_path: Path) -> None:
    best = evolve(condition("best|of", 0.8, (0, 1)), name="best|of")
    made = compare([condition("a", 0.4, (0, 1)), best]).as_json()
    text = comparison_markdown(Compared(tmp_path, made))
    (tmp_path / "comparison.json").write_text(json.dumps(made))
    assert comparison_text(tmp_path / "comparison.json", "md") == text  # one table, two commands
    head, _rule, *lines = [line for line in text.splitlines() if line.startswith(("|", "-"))]
    assert head.startswith("| condition | test | each seed |")
    assert lines[0].startswith("| best\\|of | ") and lines[1].startswith("| a | ")
    assert "best of 2 on test (chosen on test: biased upwards)" in text
    assert any(line.startswith("- of these 2 seeds' runs those of best") for line in lines)
    assert "beats" not in text


def test_runs_are_grouped_by_their_settings() -> None:
    runs = [record("a", 0, [0.5]), record("a", 1, [0.5]), record("b", 0, [0.5])]
    assert [(c.name, len(c.runs)) for c in grouped(runs)] == [("a", 2), ("b", 1)]
    other = evolve(record("a", 0, [0.5]), settings_hash="0123456789")
    names = [c.name for c in grouped([*runs, other])]
    assert names == ["a (hash-of)", "b", "a (0123456)"]
    with pytest.raises(InputError, match="another run has the same settings and seed"):
        grouped([*runs, runs[0]])


# --- statistics ----------------------------------------------------------------------------------


def test_a_difference_of_one_lucky_seed_does_not_pass_for_one_of_the_conditions() -> None:
    """Over 60 examples it looks certain; four of the five seeds show nothing."""
    a = {seed: dict.fromkeys(EXAMPLES, 0.5) for seed in range(5)}
    b = {seed: dict(a[seed]) for seed in range(5)}
    a[3] = dict.fromkeys(EXAMPLES, 1.0)
    found = difference(a, b)
    assert found.interval is not None and found.interval.mean == pytest.approx(0.1)
    assert found.p is not None and found.p > 0.3
    told = found.across_seeds
    assert told is not None and told.interval is not None and told.interval.low < 0
    same = difference(b, b)  # nothing varies: as of these runs, with room for what was not seen
    assert same.p == 1.0 and same.interval is not None and same.interval.low < 0
    assert difference(dict.fromkeys(a, a[3]), b).p == pytest.approx(0.0, abs=1e-6)


def test_seeds_and_examples_count_together() -> None:
    """By hand, S = 5 and n = 4: mean 3; by seed 4 x 2.5, by example 5 x 4/3, no rest."""
    effects = np.add.outer(np.arange(5.0), [0.0, 2.0, 2.0, 0.0])
    mean, variance, freedom = crossed_variance(effects)
    assert float(mean) == 3.0 and float(variance) == pytest.approx((10 + 20 / 3) / 20)
    assert float(freedom) == pytest.approx((10 + 20 / 3) ** 2 / (100 / 4 + (20 / 3) ** 2 / 3))
    found = crossed_test(effects)
    assert found is not None and found.interval.low < 3 < found.interval.high
    assert (found.p < 0.05) == (found.interval.low > 0)  # of one statistic
    by = {s: dict(zip("abcd", row, strict=True)) for s, row in enumerate((effects / 9).tolist())}
    of_five, of_four = (
        difference({s: by[s] for s in range(n)}, {s: dict.fromkeys("abcd", 0.0) for s in range(n)})
        for n in (5, 4)
    )
    assert of_five.p == pytest.approx(found.p) and of_five.of_conditions
    assert of_four.p == pytest.approx(2 / 16) and not of_four.of_conditions


def test_what_few_seeds_show_is_said_of_their_runs() -> None:
    made = compare([condition("low", 0.3, range(4)), condition("high", 0.6, range(4))])
    sentence = made.as_json()["differences"][0]["sentence"]
    assert sentence.startswith("of these 4 seeds' runs those of high score above those of low by ")


def test_examples_that_a_run_did_not_score_are_left_out_and_counted() -> None:
    whole, other = condition("a", 0.6), condition("b", 0.3)
    first = whole.runs[0]
    less = {name: value for name, value in first.means["theta_h"].items() if name > "e001"}
    runs = (evolve(first, means={**first.means, "theta_h": less}), *whole.runs[1:])
    made = compare([evolve(whole, runs=runs), other])
    found = made.pairs[0].difference
    assert (found.examples, found.left_out) == (58, 2)
    assert notes(made.as_json())[0].endswith("on the 58 test examples that all their runs scored")


def test_what_selection_owes_to_luck_is_not_the_splits_difference() -> None:
    """Selection is easier by 20 points for the start too; 5 points of the gain are not on test."""
    run = record("a", 0, [0.5] * 60)
    shifted = [evolve(each, mean=each.mean + 0.2) for each in run.points]
    shifted[3] = evolve(shifted[3], mean=0.75)
    easy = evolve(run, points=tuple(shifted), luck=0.03)
    made = compare([Condition("a", "h", (easy,))]).as_json()
    assert made["conditions"][0]["selection_optimism"] == pytest.approx(0.05)
    said = "a: gains 5.0 points more on selection than on test (the luck of the best alone: up to"
    assert any(note.startswith(f"{said} +3.0)") for note in notes(made))
    shifted[3] = evolve(shifted[3], mean=0.65)
    harder = evolve(run, points=tuple(shifted), luck=0.03)
    made = compare([Condition("a", "h", (harder,))]).as_json()
    assert any("a: gains 5.0 points less on selection" in note for note in notes(made))


def test_what_few_points_show_is_no_curve_to_reach() -> None:
    seldom, often = condition("seldom", 0.3, (0,)), condition("often", 0.6, (0,))
    (run,) = seldom.runs
    two = evolve(seldom, runs=(evolve(run, points=(run.points[0], run.points[3]), decided_at=1),))
    made = compare([two, often]).as_json()
    told = {(each["a"], each["b"]): each for each in made["rollouts_to_match"]}
    assert told["often", "seldom"]["median_share"] is None
    why = "seldom was measured on selection 2 times, at least 4 are needed"
    assert told["often", "seldom"]["refused"] == why and not told["seldom", "often"]["refused"]
    assert notes(made)[-1] == f"rollouts to match: {why}"


def test_lengths_luck_and_pass_at_k_are_of_all_seeds() -> None:
    runs = []
    for run in condition("a", 0.5).runs:
        (*rest, last) = run.points
        passed = {"2": Interval(0.5 + run.seed / 10, 0.0, 1.0)}
        points = (*rest, evolve(last, length=run.seed + 1))
        runs.append(evolve(run, points=points, pass_at=passed, luck=0.01 * run.seed))
    made = compare([Condition("a", "h", tuple(runs))]).as_json()
    (told,) = made["conditions"]
    assert told["phase_lengths"] == {
        "weights": {"phases": 15, "shortest": 1, "median": 3.0, "longest": 5},
        "harness": None,
    }
    assert told["pass_at"]["2"]["mean"] == pytest.approx(0.7) and told["pass_at"]["2"]["low"] > 0.4
    assert told["luck_of_the_best"] == pytest.approx(0.02) and told["update_rollouts"] == 50
    assert made["best_on_test"]["label"] == ""  # there was no choice
    assert "a: 15 weights phases of 1 to 5 steps, median 3" in notes(made)


def test_rollouts_to_match_the_best_of_another_condition() -> None:
    slow = Condition("s", "s", (record("s", 0, [0.5] * 4, 200),))
    fast = Condition("f", "f", (record("f", 0, [0.5] * 4, 50),))
    made = compare([slow, fast]).as_json()
    told = {(each["a"], each["b"]): each for each in made["rollouts_to_match"]}
    assert told["f", "s"]["by_seed"]["0"] == {
        "target": 0.5,
        "other_rollouts": 200.0,
        "rollouts": 50.0,
        "spent": 50.0,
        "share": 0.25,
    }
    assert told["f", "s"]["median_share"] == 0.25 and told["s", "f"]["median_share"] == 4.0
    assert notes(made)[-1] == (
        "f reaches the best of s on selection with 25 % of its rollouts "
        "(median; 1 of 1 seeds reach it; a best so far rises by noise too, the more often it is "
        "measured)"
    )
    assert made["conditions"][0]["curve"][-1] == {
        "rollouts": 200.0,
        "mean": 0.5,
        "low": 0.5,
        "high": 0.5,
    }


def test_pass_at_k_leaves_out_examples_with_fewer_draws() -> None:
    made = pass_table({"a": (0, 6), "b": (6, 6), "c": (1, 2)}, 6)
    assert made == pytest.approx({"1": 0.5, "2": 2 / 3, "4": 0.5, "6": 0.5})

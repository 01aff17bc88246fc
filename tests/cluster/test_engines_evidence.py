"""The measured agreement of the engines is about the present sources, and within its bounds."""

from __future__ import annotations

import json

import pytest
from measure_engines import (
    DIFFERENT,
    DTYPES,
    ENGINES,
    LOGPROBS,
    MODELS,
    PROMPTS,
    RESULT,
    SCORERS,
    TIE,
    TOKENS,
    measured_sources,
    problems,
)


def test_the_engines_were_measured_after_the_last_change_to_their_sources() -> None:
    """Else, in the cluster lane: make cluster-engines."""
    result = json.loads(RESULT.read_text())
    assert result["sources"] == measured_sources(), "older than a file of measure_engines.SOURCES"
    assert result["bounds"] == {"tie": TIE, "logprobs": LOGPROBS, "different": DIFFERENT}
    assert result["settings"] == {"prompts": PROMPTS, "tokens": TOKENS}


def test_every_case_is_there_and_within_its_bounds() -> None:
    cases = json.loads(RESULT.read_text())["cases"]
    assert [problem for case in cases for problem in problems(case)] == []
    assert [(c["model"], c["dtype"]) for c in cases] == [(m, d) for m in MODELS for d in DTYPES]
    for case in cases:
        asked = [(engine, scorer) for engine in ENGINES for scorer in SCORERS]
        assert [(each["engine"], each["scored_by"]) for each in case["sampled"]] == asked
        assert all(each["tokens"] >= PROMPTS for each in case["sampled"])
        assert len(case["greedy"]) == 3
        assert all(each["sequences"] == PROMPTS for each in case["greedy"])


GREEDY = {"engines": ["a", "b"], "sequences": 32, "equal": 31, "ties": 1}
SAMPLED = {"engine": "a", "scored_by": "b", "mean": 1e-5, "largest": 1e-3}


@pytest.mark.parametrize(
    ("dtype", "changed", "count"),
    [
        ("float32", {}, 0),
        ("float32", {"same_prompts": False}, 1),
        ("float32", {"same_weights": False}, 1),
        ("float32", {"greedy": [GREEDY | {"ties": 0}]}, 1),
        ("float32", {"greedy": [GREEDY | {"equal": 20, "ties": 12}]}, 1),
        ("bfloat16", {"greedy": [GREEDY | {"equal": 20, "ties": 12}]}, 0),
        ("bfloat16", {"greedy": [GREEDY | {"equal": 20, "ties": 11}]}, 1),
        ("float32", {"sampled": [SAMPLED | {"mean": 2e-4}, SAMPLED | {"largest": 3e-3}]}, 2),
        ("bfloat16", {"sampled": [SAMPLED | {"mean": 0.05, "largest": 0.9}]}, 0),
        ("bfloat16", {"sampled": [SAMPLED | {"mean": float("nan")}]}, 1),
    ],
)
def test_what_breaks_a_bound_is_told(dtype: str, changed: dict[str, object], count: int) -> None:
    case = {
        "model": "m",
        "dtype": dtype,
        "same_weights": True,
        "same_prompts": True,
        "greedy": [GREEDY],
        "sampled": [SAMPLED],
        **changed,
    }
    assert len(problems(case)) == count

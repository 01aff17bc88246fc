"""The measured agreement of the trainers is about the present sources, and within its bounds."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "cluster"))

from measure_gradients import CASES, RESULT, TOLERANCES, sources_hash, within


def test_the_gradients_were_measured_after_the_last_change_to_the_actors() -> None:
    """Else, in the cluster lane: make cluster-gradients."""
    result = json.loads(RESULT.read_text())
    assert result["sources"] == sources_hash(), "older than actor.py, adapter.py or batches.py"
    assert result["tolerances"] == TOLERANCES


def test_every_case_is_there_and_agrees() -> None:
    cases = json.loads(RESULT.read_text())["cases"]
    assert all(within(case) for case in cases)
    found = {
        (case["model"], case["zero"], case["loss_kind"], case["ranks"])
        for case in cases
        if case["trainer"] == "openrlhf"
    }
    assert found == {(c.model, c.zero, c.loss, ranks) for c in CASES for ranks in (1, 2)}
    plain = {(case["model"], case["dtype"]) for case in cases if case["trainer"] == "torch"}
    assert plain == {(m, d) for m in ("llama", "qwen3.5") for d in ("float32", "bfloat16")}

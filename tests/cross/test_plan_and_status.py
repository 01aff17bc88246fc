"""``whale plan`` against what a run really did, and ``whale status`` beside one that runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm_kit
from run_kit import journal_of

Whale = Callable[..., subprocess.CompletedProcess[str]]

SMALL = (
    *("scheduler.iterations=2", "domain.harness=16", "model_update.group_size=4"),
    *("search.examples=8", "selection.examples=8", "test.examples=8", "test.draws=1"),
)


def one_line(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.strip().splitlines()
    return line


@pytest.fixture(scope="module")
def planned(whale: Whale) -> dict[str, Any]:
    done = whale("plan", "--plugin-set", "smoke", "--no-calibration", "--json", *SMALL)
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads(done.stdout)
    assert made["estimate"] is None and made["calibration"] is None
    return made["plan"]


@pytest.fixture(scope="module")
def run(whale: Whale, state: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run: looked at while it runs, killed, continued to a cap, and then to its end."""
    folder = tmp_path_factory.mktemp("status") / "runs" / "one"
    seen: dict[str, Any] = {"folder": folder}

    def look() -> dict[str, Any]:
        done = whale("status", str(folder), "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    process = warm_kit.start(
        ["run", "--plugin-set", "smoke", "--run-dir", str(folder), *SMALL],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "WHALE_STATE": str(state)},
    )
    try:
        while process.poll() is None:
            journal = folder / "journal.jsonl"
            if journal.is_file() and b'"weight_step"' in journal.read_bytes():
                break
            time.sleep(0.02)
        # A plain SIGSTOP, so that the run is still there, whatever else the machine does.
        process.send_signal(signal.SIGSTOP)
        seen["pid"], seen["running"] = process.pid, look()
    finally:
        process.kill()
        process.wait()
    seen["killed"] = look()
    # One rollout more is allowed than there are: the next block does not fit.
    cap = int(seen["killed"]["spent"]["rollouts"]) + 1
    stopped = whale("resume", str(folder), f"cap.rollouts={cap}")
    assert stopped.returncode == 5, stopped.stderr
    seen["cap"], seen["stopped"] = cap, look()
    ended = whale("resume", str(folder), "cap.rollouts=0")
    assert ended.returncode == 0, ended.stderr
    seen["finished"] = look()
    return seen


def test_planned_rollouts_are_the_ledgers(planned: dict[str, Any], run: dict[str, Any]) -> None:
    """Also after a kill, a cap and two continuations: nothing is made or charged twice."""
    result = json.loads((run["folder"] / "result.json").read_text())
    by = {
        name.removeprefix("policy/"): int(spent["rollouts"])
        for name, spent in result["ledger"]["by"].items()
        if name.startswith("policy/")
    }
    spans = planned["by_purpose"]
    for purpose, span in spans.items():
        assert span["least"] <= by.get(purpose, 0) <= span["most"]  # confirmed nothing: no line
    assert by["train"] == spans["train"]["least"] == spans["train"]["most"]
    assert by["select"] == spans["select"]["least"] == spans["select"]["most"]
    tried = [
        candidate
        for line in journal_of(run["folder"])
        if line.get("event") == "search_iteration"
        for candidate in line["candidates"]
    ]
    assert len(tried) == 3 and not any(candidate["rejection"] for candidate in tried)
    assert by["score"] == spans["score"]["most"]
    assert by["smoke"] == spans["smoke"]["most"]
    pairs = {(pair["harness_id"], pair["weights_id"]) for pair in result["pairs"].values()}
    assert by["test"] == len(pairs) * spans["test"]["least"]
    assert planned["proposals"] == {"least": 1, "most": 1}
    nulls = [line for line in journal_of(run["folder"]) if line.get("event") == "null_check"]
    assert sum(3 * line["examples"] for line in nulls) == planned["null_episodes"]["most"]
    stored = json.loads((run["folder"] / "plan.json").read_text())
    assert stored == planned


def test_status_beside_a_running_run(run: dict[str, Any]) -> None:
    found = run["running"]
    assert (found["state"], found["pid"]) == ("running", run["pid"])
    assert found["position"]["kind"] == "weights" and found["position"]["phase"] == 1
    assert found["position"]["planned"] == 3 and found["position"]["done"] >= 1
    assert found["signals"] and found["selection"]
    assert 0 < found["spent"]["rollouts"] < found["planned_rollouts"]
    assert found["left_seconds"] > 0


def test_status_of_a_killed_a_capped_and_a_finished_run(run: dict[str, Any]) -> None:
    killed, stopped, finished = run["killed"], run["stopped"], run["finished"]
    assert killed["state"] == "killed" and killed["pid"] is None
    assert killed["spent"] == run["running"]["spent"]
    assert stopped["state"] == "stopped"
    assert f"cap.rollouts={run['cap']}" in stopped["reason"]
    assert stopped["caps"] == {"rollouts": run["cap"]}
    assert finished["state"] == "finished" and finished["position"] is None
    assert finished["result"]["pairs"].keys() >= {"theta_h"}


def test_status_for_readers(run: dict[str, Any], program: str) -> None:
    def status(*arguments: str) -> str:
        done = subprocess.run(
            [program, "status", *arguments],
            cwd=run["folder"].parents[1],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    (listed,) = status().splitlines()
    assert listed.startswith("one ") and "finished" in listed
    shown = status("runs/one")
    assert "state     finished" in shown and "final harness h" in shown
    watched = status("runs/one", "--watch")  # has nothing to wait for
    assert "state     finished" in watched


def test_status_refuses_what_is_no_run(whale: Whale, tmp_path: Path) -> None:
    assert "not a run folder" in one_line(whale("status", str(tmp_path)), 4)
    assert "no run folder at" in one_line(whale("status", str(tmp_path / "absent")), 4)
    assert "--watch needs" in one_line(whale("status", "--watch"), 2)


def test_a_calibrated_plan_leaves_nothing_behind(whale: Whale, state: Path, tmp_path: Path) -> None:
    register = state / "whale" / "test-openings.json"
    before = register.read_bytes() if register.is_file() else b""
    arguments = ("plan", "--plugin-set", "smoke", "--run-dir", str(tmp_path), "--json")
    done = whale(*arguments)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    costs, measured = made["estimate"], made["calibration"]
    assert list(tmp_path.iterdir()) == []  # the folder that was calibrated in is gone
    assert (register.read_bytes() if register.is_file() else b"") == before
    assert measured["notes"] == [] and measured["seconds"] > 0
    assert measured["rollouts"] == 1 + 4 + 32 + 8 * 8
    assert measured["training"] is not None
    assert 0 < costs["rollout_seconds"]["least"] <= costs["rollout_seconds"]["most"]
    # The toy's replies have at most eight tokens, and its prompts a few dozen.
    rollouts = made["plan"]["rollouts"]["most"]
    assert 1 <= costs["sampled_tokens"]["most"] / rollouts <= 16
    assert costs["trained_tokens"]["least"] == 0
    assert costs["disk_bytes"]["kept"]["most"] > measured["checkpoint"]["optimizer_bytes"]
    assert costs["memory_mb"] > 100


def test_a_budget_below_one_cycle_is_refused(whale: Whale, planned: dict[str, Any]) -> None:
    need = planned["first_cycle_rollouts"]
    plan = ("plan", "--plugin-set", "smoke", "--no-calibration", *SMALL)
    line = one_line(whale(*plan, f"cap.rollouts={need - 1}"), 2)
    assert f"one cycle needs {need} rollouts" in line
    assert whale(*plan, f"cap.rollouts={need}").returncode == 0


def test_power_takes_a_run_s_own_figures(run: dict[str, Any], whale: Whale) -> None:
    done = whale("power", str(run["folder"]), "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    result = json.loads((run["folder"] / "result.json").read_text())
    spent = result["ledger"]["by"]["policy/test"]
    assert (found["examples"], found["draws"], found["rollouts"]) == (8, 1, 16)
    assert found["base"] == result["pairs"]["theta0_h0"]["mean"]
    tokens = spent["prompt_tokens"] + spent["sampled_tokens"]
    assert found["tokens"] == pytest.approx(16 * tokens / spent["rollouts"])
    assert found["seconds"] > 0 and "correlation" in found["notes"][0]

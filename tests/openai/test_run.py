"""Whole runs on a real endpoint: search and evaluation, accounts, refusals, kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from server_kit import KEY, MODEL, Answer, Body, Endpoint, completion, error

PROGRAM = str(Path(sys.executable).parent / "whale")
PRICES = (3.0, 0.3, 15.0)  # USD per million: input, cached, output
SETTINGS = (
    "domain=toy",
    "verifier=toy",
    "harness=first-listed-letter",
    "harness_search.candidates=2",
    "scheduler.iterations=3",
    "search.examples=16",
    "selection={examples: 8, draws: 2}",
    "test={examples: 12, draws: 2}",
)
PRICED = f"engine.prices={{input: {PRICES[0]}, cached: {PRICES[1]}, output: {PRICES[2]}}}"


def arguments(endpoint: Endpoint, folder: Path, *more: str) -> list[str]:
    engine = ("engine=openai", f"engine.base_url={endpoint.url}", f"engine.model={MODEL}")
    where = ["run", "--plugin-set", "harness-only", "--run-dir", str(folder)]
    return [*where, *SETTINGS, *engine, "engine.api_key_env=TOY_KEY", *more]


def start(parts: Sequence[str], state: Path, key: str | None = KEY) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENAI_")}
    environment |= {"WHALE_STATE": str(state)} | ({} if key is None else {"TOY_KEY": key})
    return subprocess.Popen(
        [PROGRAM, *parts],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, errors = process.communicate(timeout=120)
    return process.returncode, out + errors


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def timeless(value: Any) -> Any:
    """Leave out times and what the provider's cache decides."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k != "peak_memory_mb"}
        return {k: timeless(v) for k, v in kept.items() if not k.endswith("seconds")}
    return [timeless(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


def assert_accounts(folder: Path, endpoint: Endpoint) -> dict[str, Any]:
    """The ledger says what the server counted, to the token and the millionth of a dollar."""
    ledger = lines(folder / "ledger.jsonl")
    sums = {name: sum(line[name] for line in ledger) for name in ledger[0] if name[-1] == "s"}
    assert sums["calls"] == len(endpoint.usages)
    assert sums["prompt_tokens"] == endpoint.total("prompt_tokens")
    assert sums["sampled_tokens"] == endpoint.total("completion_tokens")
    assert sums["cached_tokens"] == endpoint.cached
    assert sum(line["usd"] for line in ledger) == pytest.approx(endpoint.usd(PRICES))
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    assert result["ledger"]["usd"] == pytest.approx(endpoint.usd(PRICES), abs=1e-6)
    return result


def test_search_and_evaluation_end_to_end(endpoint: Endpoint, state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    code, text = end(start(arguments(endpoint, folder, PRICED), state))
    assert code == 0, text
    result = assert_accounts(folder, endpoint)
    assert result["engine"]["served_model"].startswith(MODEL)
    assert result["ledger"]["not_scored"] == 0
    assert 0 < result["pairs"]["theta_h"]["mean"] < 1
    probes = [line for line in lines(folder / "ledger.jsonl") if line["purpose"] == "probe"]
    assert [line["calls"] for line in probes] == [1]
    iterations = [
        e for e in lines(folder / "journal.jsonl") if e.get("event") == "search_iteration"
    ]
    assert len(iterations) == 3
    for path in folder.rglob("*"):
        assert not path.is_file() or KEY not in path.read_text(errors="replace"), path
    assert KEY not in text
    # a second run draws the same: seeds come from the run's keys
    again = tmp_path / "again"
    assert end(start(arguments(endpoint, again, PRICED), state))[0] == 0
    for name in sorted(path.name for path in (folder / "rollouts").iterdir()):
        first, second = (timeless(lines(each / "rollouts" / name)) for each in (folder, again))
        assert first == second


def test_kill_9_pays_for_no_committed_block_twice(
    endpoint: Endpoint, state: Path, tmp_path: Path
) -> None:
    def plan(number: int, body: Body) -> Answer | None:
        time.sleep(0.004)  # so that a kill can meet a block that is being made
        return None

    endpoint.plan = plan
    folder = tmp_path / "run"
    parts = arguments(endpoint, folder, PRICED)
    lost = 0
    for blocks in (2, 5, 9):
        process = start(parts, state)
        journal = folder / "journal.jsonl"
        seen = 0
        while process.poll() is None and seen < blocks:
            events = journal.read_text().splitlines() if journal.is_file() else []
            seen = sum('"event":"rollouts"' in e.replace(" ", "") for e in events)
            time.sleep(0.002)
        time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        time.sleep(0.3)  # until the server has answered what was under way
        committed = sum(line["calls"] for line in lines_of_ledger(folder))
        assert committed <= len(endpoint.usages) - lost
        lost = len(endpoint.usages) - committed
        parts = ["resume", str(folder)]
    code, text = end(start(parts, state))
    assert code == 0, text
    ledger = lines(folder / "ledger.jsonl")
    # every call that the ledger has was made once; what is not in it was under way at a kill
    assert sum(line["calls"] for line in ledger) == len(endpoint.usages) - lost
    asked: dict[tuple[Any, ...], int] = {}
    for block in lines(folder / "journal.jsonl"):
        if block.get("event") == "rollouts":
            name = (block["phase"], block["purpose"], block["asked"])
            asked[name] = asked.get(name, 0) + 1
    assert set(asked.values()) == {1}
    assert sum(line["purpose"] == "probe" for line in ledger) == 4
    whole = tmp_path / "whole"
    endpoint.plan = lambda number, body: None
    assert end(start(arguments(endpoint, whole, PRICED), state))[0] == 0
    for path in sorted((whole / "rollouts").iterdir()):
        there = folder / "rollouts" / path.name
        assert timeless(lines(there)) == timeless(lines(path))


def lines_of_ledger(folder: Path) -> list[dict[str, Any]]:
    """Return the ledger lines that the journal has committed."""
    length = lines(folder / "journal.jsonl")[-1]["lengths"].get("ledger.jsonl", 0)
    text = (folder / "ledger.jsonl").read_bytes()[:length]
    return [json.loads(line) for line in text.splitlines()]


def refused(
    endpoint: Endpoint, state: Path, folder: Path, *more: str, key: str | None = KEY
) -> str:
    code, text = end(start(arguments(endpoint, folder, *more), state, key))
    assert code == 2, text
    assert len(text.strip().splitlines()) == 1, text
    assert not folder.exists() or not any(folder.iterdir())
    return text


def test_refusals_before_anything_is_spent(endpoint: Endpoint, state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    text = refused(endpoint, state, folder, "model_update=rsft")
    assert "model update" in text and "token ids" in text
    text = refused(endpoint, state, folder, "cap.usd=1")
    assert "cap.usd" in text and "prices" in text
    text = refused(endpoint, state, folder, key=None)
    assert "TOY_KEY" in text and "not set" in text
    text = refused(endpoint, state, folder, "engine.extra={n: 2}")
    assert "engine.extra" in text
    text = refused(endpoint, state, folder, f"engine.base_url=http://{KEY}@127.0.0.1/v1")
    assert KEY not in text and "engine.base_url" in text
    assert not endpoint.bodies
    text = refused(endpoint, state, folder, key="sk-wrong-key-77")
    assert "401" in text and "sk-wrong" not in text
    text = refused(endpoint, state, folder, "engine.model=none")
    assert "404" in text and not endpoint.usages


def test_a_cap_on_usd_stops_the_run(endpoint: Endpoint, state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    code, text = end(start(arguments(endpoint, folder, PRICED, "cap.usd=0.001"), state))
    assert code == 5, text
    assert "cap.usd" in text
    assert endpoint.usd(PRICES) < 0.01


def test_an_endpoint_that_breaks_down_stops_the_run_resumable(
    endpoint: Endpoint, state: Path, tmp_path: Path
) -> None:
    broken = True

    def plan(number: int, body: Body) -> Answer | None:
        if broken and number > 60:
            return Answer(error("on fire"), 500, headers={"x-should-retry": "false"})
        return Answer(completion(body, "a")) if number % 7 else None

    endpoint.plan = plan
    folder = tmp_path / "run"
    code, text = end(start(arguments(endpoint, folder, PRICED), state))
    assert code == 6 and "on fire" in text, text
    broken = False
    code, text = end(start(["resume", str(folder)], state))
    assert code == 0, text
    result = json.loads((folder / "result.json").read_text())
    assert result["ledger"]["not_scored"] > 0
    assert all(pair["examples"] == 12 for pair in result["pairs"].values())
    assert_accounts(folder, endpoint)


def test_an_unknown_price_is_said_once(endpoint: Endpoint, state: Path, tmp_path: Path) -> None:
    code, text = end(start(arguments(endpoint, tmp_path / "run"), state))
    assert code == 0, text
    assert " ".join(text.split()).count("engine.prices is not set") == 1
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["ledger"]["usd"] == 0 and result["ledger"]["sampled_tokens"] > 0

"""Whole runs on a real endpoint: search and evaluation, accounts, refusals, kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import warm_kit
from attrs import frozen
from chat_server_kit import KEY, MODEL, Answer, Body, Endpoint, completion, error
from run_kit import journal_of, lines_of, result_of, timeless

PRICES = (3.0, 0.3, 15.0)  # USD per million: input, cached, output
SETTINGS = (
    "domain=toy",
    "verifier=toy",
    "harness=first-listed-letter",
    "harness_search.candidates=2",
    "scheduler.iterations=2",
    "search.examples=8",
    "selection={examples: 6, draws: 1}",
    "test={examples: 6, draws: 2}",
)
PRICED = f"engine.prices={{input: {PRICES[0]}, cached: {PRICES[1]}, output: {PRICES[2]}}}"


def arguments(endpoint: Endpoint, folder: Path, *more: str) -> list[str]:
    engine = ("engine=openai", f"engine.base_url={endpoint.url}", f"engine.model={MODEL}")
    where = ["run", "--plugin-set", "harness-only", "--run-dir", str(folder)]
    return [*where, *SETTINGS, *engine, "engine.api_key_env=TOY_KEY", *more]


def start(parts: Sequence[str], state: Path, key: str | None = KEY) -> warm_kit.Program:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENAI_")}
    environment |= {"WHALE_STATE": str(state)} | ({} if key is None else {"TOY_KEY": key})
    return warm_kit.start(
        parts,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=environment,
    )


def end(process: warm_kit.Program) -> tuple[int, str]:
    out, errors = process.communicate(timeout=900)  # on a busy machine
    return process.returncode, out + errors


@frozen
class Finished:
    """A run to its end, what was printed, and what the server had answered by then."""

    folder: Path
    text: str
    calls: int


@pytest.fixture(scope="module")
def server() -> Iterator[Endpoint]:
    """One server for all, since its address is part of what is served."""
    made = Endpoint()
    yield made
    made.close()


@pytest.fixture
def endpoint(server: Endpoint) -> Endpoint:
    """The server with new accounts."""
    server.plan = lambda number, body: None
    for kept in (server.bodies, server.keys, server.usages):
        kept.clear()  # type: ignore[attr-defined]
    return server


@pytest.fixture(scope="module")
def finished(server: Endpoint, state: Path, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("finished") / "run"
    code, text = end(start(arguments(server, folder, PRICED), state))
    assert code == 0, text
    assert_accounts(folder, server)
    return Finished(folder, text, len(server.usages))


def assert_accounts(folder: Path, endpoint: Endpoint) -> None:
    """The ledger says what the server counted, to the token and the millionth of a dollar."""
    ledger = lines_of(folder / "ledger.jsonl")
    sums = {name: sum(line[name] for line in ledger) for name in ledger[0] if name[-1] == "s"}
    assert sums["calls"] == len(endpoint.usages)
    assert sums["prompt_tokens"] == endpoint.total("prompt_tokens")
    assert sums["sampled_tokens"] == endpoint.total("completion_tokens")
    assert sums["cached_tokens"] == endpoint.cached
    assert sum(line["usd"] for line in ledger) == pytest.approx(endpoint.usd(PRICES))
    totals = result_of(folder)["ledger"]
    assert totals["usd"] == pytest.approx(endpoint.usd(PRICES), abs=1e-6)
    assert totals["calls"] == len(endpoint.usages)


def test_search_and_evaluation_end_to_end(finished: Finished) -> None:
    """That tokens and USD are the server's own is asserted where the run is made."""
    folder = finished.folder
    result = result_of(folder)
    assert result["engine"]["served_model"].startswith(MODEL)
    assert result["ledger"]["not_scored"] == 0
    assert finished.calls > result["ledger"]["rollouts"] / 2 > 10
    assert all(0 <= pair["mean"] <= 1 for pair in result["pairs"].values())
    probes = [line for line in lines_of(folder / "ledger.jsonl") if line["purpose"] == "probe"]
    assert [line["calls"] for line in probes] == [1]
    journal = journal_of(folder)
    assert sum(line.get("event") == "search_iteration" for line in journal) == 2
    for path in folder.rglob("*"):
        assert not path.is_file() or KEY not in path.read_text(errors="replace"), path
    assert KEY not in finished.text


def test_kill_9_pays_for_no_committed_block_twice(
    finished: Finished, endpoint: Endpoint, state: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    parts = arguments(endpoint, folder, PRICED)
    lost = 0
    for blocks in (1, 4):
        endpoint.plan = slowly
        process = start(parts, state)
        while process.poll() is None and blocks_of_rollouts(folder) < blocks:
            time.sleep(0.002)
        time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        time.sleep(0.5)  # until the server has answered what was under way
        committed = sum(line["calls"] for line in committed_ledger(folder))
        assert committed <= len(endpoint.usages) - lost
        lost = len(endpoint.usages) - committed
        parts = ["resume", str(folder)]
    endpoint.plan = lambda number, body: None
    code, text = end(start(parts, state))
    assert code == 0, text
    ledger = lines_of(folder / "ledger.jsonl")
    # every call that the ledger has was made once; what is not in it was under way at a kill
    assert sum(line["calls"] for line in ledger) == len(endpoint.usages) - lost
    assert sum(line["purpose"] == "probe" for line in ledger) == 3
    spent = [timeless(line) for line in ledger if line["purpose"] != "probe"]
    reference = lines_of(finished.folder / "ledger.jsonl")
    assert spent == [timeless(line) for line in reference if line["purpose"] != "probe"]
    for path in sorted((finished.folder / "rollouts").iterdir()):
        assert timeless(lines_of(folder / "rollouts" / path.name)) == timeless(lines_of(path))


def slowly(number: int, body: Body) -> Answer | None:
    """Take so long that a kill can meet a block that is being made."""
    time.sleep(0.05)
    return None


def blocks_of_rollouts(folder: Path) -> int:
    journal = folder / "journal.jsonl"
    return journal.read_text().count('"event": "rollouts"') if journal.is_file() else 0


def committed_ledger(folder: Path) -> list[dict[str, Any]]:
    """Return the ledger lines that the journal has committed."""
    text = (folder / "journal.jsonl").read_text()
    last = json.loads(text[: text.rindex("\n")].splitlines()[-1])
    data = (folder / "ledger.jsonl").read_bytes()[: last["lengths"].get("ledger.jsonl", 0)]
    return [json.loads(line) for line in data.splitlines()]


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
    text = refused(endpoint, state, folder, "model_update=rsft", "engine.token_ids=true")
    assert "model update" in text and "takes no updated weights" in text
    text = refused(endpoint, state, folder, "cap.usd=1")
    assert "cap.usd" in text and "prices" in text
    text = refused(endpoint, state, folder, key=None)
    assert "TOY_KEY" in text and "not set" in text
    text = refused(endpoint, state, folder, f"engine.base_url=http://{KEY}@127.0.0.1/v1")
    assert KEY not in text and "engine.base_url" in text
    assert not endpoint.bodies
    text = refused(endpoint, state, folder, key="sk-wrong-key-77")
    assert "401" in text and "sk-wrong" not in text
    assert not endpoint.usages


def test_a_cap_on_usd_stops_the_run(endpoint: Endpoint, state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    code, text = end(start(arguments(endpoint, folder, PRICED, "cap.usd=0.0001"), state))
    assert code == 5, text
    assert "cap.usd" in text
    assert 0.0001 <= endpoint.usd(PRICES) < 0.002


@pytest.mark.slow
def test_an_endpoint_that_breaks_down_stops_the_run_resumable(
    endpoint: Endpoint, state: Path, tmp_path: Path
) -> None:
    """Without prices: that is said once, and tokens are counted all the same."""
    broken = True

    def plan(number: int, body: Body) -> Answer | None:
        if broken and number > 15:
            return Answer(error("on fire"), 500, headers={"x-should-retry": "false"})
        return Answer(completion(body, "a")) if number % 7 else None

    endpoint.plan = plan
    folder = tmp_path / "run"
    code, text = end(start(arguments(endpoint, folder), state))
    assert code == 6 and "on fire" in text, text
    assert " ".join(text.split()).count("engine.prices is not set") == 1
    broken = False
    code, text = end(start(["resume", str(folder)], state))
    assert code == 0, text
    totals = result_of(folder)["ledger"]
    assert totals["not_scored"] > 0 and totals["usd"] == 0
    assert totals["sampled_tokens"] == endpoint.total("completion_tokens")
    assert all(pair["examples"] == 6 for pair in result_of(folder)["pairs"].values())


def test_doctor_asks_the_endpoint(endpoint: Endpoint, state: Path, tmp_path: Path) -> None:
    parts = arguments(endpoint, tmp_path)
    out, _ = start(["doctor", *parts[1:], "--json"], state).communicate(timeout=900)
    report = json.loads(out)
    assert report["passed"], report
    found = {each["name"]: each for each in report["checks"]}
    assert "endpoint" in found["chat template"]["found"] and "toy-model" in found["engine"]["found"]
    assert found["rollouts"]["state"] == "ok"
    assert endpoint.bodies[0]["max_tokens"] == 1 and len(endpoint.bodies) > 1

"""Whole runs that a judge scores: refusals before anything is spent, the ledger, kill -9."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import warm_kit
from chat_server_kit import KEY, MODEL, Answer, Body, Endpoint, completion
from judge_kit import USD, reply_to
from run_kit import lines_of, result_of, timeless

JUDGE = "toy-judge"
SETTINGS = (
    "domain=searchqa",
    "domain.harness=12",
    "domain.selection=8",
    "domain.test=8",
    "harness=published",
    "harness_search.candidates=1",
    "scheduler.iterations=2",
    "search.examples=8",
    "selection={examples: 6, draws: 1}",
    "test={examples: 6, draws: 2}",
    "engine=openai",
    f"engine.model={MODEL}",
    "engine.api_key_env=TOY_KEY",
    "verifier=llm-judge",
    f"verifier.model={JUDGE}",
    "verifier.api_key_env=TOY_KEY",
    f"verifier.prices={{input: {USD[0]}, cached: {USD[1]}, output: {USD[2]}}}",
)


def answers(body: Body) -> str:
    """The policy: one of four answers, a function of seed and conversation."""
    seed = f"{body.get('seed')} {json.dumps(body['messages'])}"
    name = ("Drusta", "1457", "Polmwick", "nobody")[hashlib.sha256(seed.encode()).digest()[0] % 4]
    return f"<answer>{name}</answer>"


class Served:
    """Policy and judge behind one address, each with its own accounts."""

    def __init__(self) -> None:
        self.endpoint = Endpoint(plan=self.plan)
        self.seconds = 0.0
        self.bills: list[Any] = []

    def plan(self, number: int, body: Body) -> Answer:
        if body["model"] != JUDGE:
            return Answer(completion(body, answers(body)))
        made = completion(body, reply_to(body))
        time.sleep(self.seconds)
        self.bills.append(made["usage"])
        return Answer(made)

    @property
    def usd(self) -> float:
        fresh = Endpoint()
        fresh.usages.extend(self.bills)
        fresh.close()
        return fresh.usd(USD)


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.endpoint.close()


def start(
    folder: Path, served: Served, state: Path, *more: str, resume: bool = False
) -> warm_kit.Program:
    url = served.endpoint.url
    where = ["run", "--plugin-set", "harness-only", "--run-dir", str(folder), *SETTINGS]
    where += [f"engine.base_url={url}", f"verifier.base_url={url}"]
    where += [f"verifier.cache={folder}-verdicts.jsonl", *more]
    return warm_kit.start(
        ["resume", str(folder)] if resume else where,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "WHALE_STATE": str(state), "TOY_KEY": KEY},
    )


def end(process: warm_kit.Program) -> tuple[int, str]:
    out, errors = process.communicate(timeout=900)
    return process.returncode, out + errors


def judge_lines(folder: Path) -> list[Any]:
    return [line for line in lines_of(folder / "ledger.jsonl") if line["role"] == "judge"]


def test_a_judge_that_is_not_there_ends_it_before_anything_is_spent(
    served: Served, state: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    more = ("verifier.base_url=http://127.0.0.1:9/v1", "verifier.retries=0")
    code, text = end(start(folder, served, state, *more))
    assert code == 2, text
    assert len(text.strip().splitlines()) == 1 and "verifier llm-judge" in text
    assert "cannot be reached" in text
    assert [body["max_tokens"] for body in served.endpoint.bodies] == [1]  # the policy's probe
    assert not folder.exists()


@pytest.mark.slow
def test_the_ledger_is_the_judge_s_own_account_also_after_kill_9(
    served: Served, state: Path, tmp_path: Path
) -> None:
    whole = tmp_path / "whole"
    code, text = end(start(whole, served, state))
    assert code == 0, text
    charged = judge_lines(whole)
    assert sum(line["calls"] for line in charged) == len(served.bills) > 10
    assert sum(line["usd"] for line in charged) == pytest.approx(served.usd)
    pair = result_of(whole)["pairs"]["theta0_h0"]
    assert pair["parts"]["judge"] == pair["mean"] and "agrees_with_em" in pair["parts"]

    served.bills.clear()
    served.seconds = 0.05
    folder, kept = tmp_path / "killed", tmp_path / "killed-verdicts.jsonl"
    lost = 0
    for starts, count in enumerate((3, 60, 110), 1):  # the last in or behind the search
        process = start(folder, served, state, resume=folder.exists())
        while process.poll() is None and len(served.bills) < count:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        time.sleep(0.5)  # until the server has answered what was under way
        lost = len(served.bills) - starts - len(bought(kept))
    code, text = end(start(folder, served, state, resume=True))
    assert code == 0, text
    again = judge_lines(folder)
    of_run = [timeless(line) for line in again if line["purpose"] != "probe"]
    assert of_run == [timeless(line) for line in charged if line["purpose"] != "probe"]
    assert sum(line["calls"] for line in of_run) == len(bought(kept)) == len(set(bought(kept)))
    # beside what was on its way at a kill and each start's own question, nothing was paid for
    assert len(served.bills) - lost - 4 == len(bought(kept))


def bought(path: Path) -> list[str]:
    return [line["key"] for line in lines_of(path) if "key" in line]

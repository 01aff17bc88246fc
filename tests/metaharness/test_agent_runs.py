"""Whole runs whose candidates a model behind a local server writes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from agent_kit import faulty
from agent_run import researcher, settings
from attrs import astuple
from proposer_server_kit import KEY, Fault, ModelServer, Said, Script
from run_kit import blocks_of, lines_of, timeless

from whale_core.api import resume, run
from whale_core.errors import CapReached, InputError
from whale_core.plugins import here
from whale_core.records import Spent

Serve = Callable[[Script], ModelServer]
ITERATIONS, TURNS = 2, 5  # with a proposal, and requests in each
kinds = pytest.mark.parametrize("kind", ["anthropic", "openai"])


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(here, "_REGISTERED", {})
    monkeypatch.setenv("WHALE_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    yield


def charged(folder: Path) -> tuple[Spent, int]:
    """Return what the ledger says of the proposer, and how often it was asked to say ok."""
    lines = [line for line in lines_of(folder / "ledger.jsonl") if line["role"] == "proposer"]
    names = ("calls", "prompt_tokens", "cached_tokens", "sampled_tokens", "usd")
    spent = [Spent(*(line[name] for name in names)) for line in lines]
    probes = sum(line["purpose"] == "probe" for line in lines)
    return sum(spent, Spent()), probes


def ledger_of(folder: Path) -> Counter[tuple[str, str, str]]:
    """Return what a run's ledger counts by role, purpose and count; probes and times aside."""
    counted: Counter[tuple[str, str, str]] = Counter()
    for line in lines_of(folder / "ledger.jsonl"):
        role, purpose = line["role"], line["purpose"]
        if purpose != "probe":
            for name in ("rollouts", "calls", "prompt_tokens", "cached_tokens", "sampled_tokens"):
                counted[role, purpose, name] += line[name]
    return counted


def same(one: Spent, other: Spent) -> bool:
    return astuple(one) == pytest.approx(astuple(other))


def archived(folder: Path) -> list[dict[str, Any]]:
    """Return what a run's journal says of its candidates, times aside."""
    blocks = [b for b in blocks_of(folder) if b["event"] == "search_iteration"]
    made: list[dict[str, Any]] = timeless(blocks)
    return made


@kinds
def test_a_run_searches_with_a_model_at_the_cost_that_its_server_counts(
    serve: Serve, kind: str
) -> None:
    server = serve(
        faulty({2: Fault(500), 7: Fault(429, headers={"retry-after": "0.01"})}, researcher)
    )
    result = run(settings(kind, server.url), run_dir="run", progress=False)
    folder = Path("run")
    _, second, third = archived(folder)
    for iteration in (second, third):
        assert [each["axis"] for each in iteration["candidates"]] == ["A", "B"]
        assert all(each["mean"] is not None for each in iteration["candidates"])
    assert len(server.bodies) == ITERATIONS * TURNS + 2 + 1
    spent, probes = charged(folder)
    assert probes == 1 and same(spent, server.total)
    told = result.ledger["by"]["proposer/propose"]
    assert told["calls"] == ITERATIONS * TURNS and told["cached_tokens"] > 0
    assert result.ledger["usd"] == pytest.approx(server.total.usd, abs=1e-6)
    assert "Candidate harnesses were written by toy-proposer" in result.data["sentence"]
    sent = str(server.bodies)
    assert "refused by the gate null" in sent  # and mended
    assert "Two ideas." in (folder / "harnesses/reports/phase-001-iteration-003.md").read_text()
    everything = [path for path in folder.rglob("*") if path.is_file()]
    assert not any(KEY.encode() in path.read_bytes() for path in everything)


def test_an_iteration_whose_model_fails_is_spent_and_recorded(serve: Serve) -> None:
    def script(ask: Any) -> Said | Fault:
        if ask.iteration == 2 and ask.turn == 2:
            return Fault(400, {"error": {"message": "too long"}})
        return researcher(ask) if ask.iteration != 3 else Fault(503)

    server = serve(script)
    run(settings("openai", server.url, retries=1), run_dir="run", progress=False)
    _, second, third = archived(Path("run"))
    failed = "; the proposer failed: the endpoint answers 400: too long"
    assert failed in second["reason"] and len(second["candidates"]) == 1  # the other one cheats
    assert "the endpoint answers 503" in third["reason"] and third["candidates"] == []
    spent, _ = charged(Path("run"))
    assert same(spent, server.total)


def test_the_caps_of_a_run_see_the_proposer_and_what_it_bought_is_not_bought_again(
    serve: Serve,
) -> None:
    server = serve(researcher)
    chosen = {**settings("anthropic", server.url), "cap.usd": 0.004}
    with pytest.raises(CapReached, match=r"cap\.usd=0\.004 is reached"):
        run(chosen, run_dir="run", progress=False)
    asked = len(server.bodies)
    assert asked == 1 + TURNS  # one session, and no second one
    resume("run", {"cap.usd": 0}, progress=False)
    assert len(server.bodies) == asked + 1 + TURNS
    spent, probes = charged(Path("run"))
    assert probes == 2 and same(spent, server.total)


def tokens(lines: list[dict[str, Any]]) -> int:
    return sum(line["prompt_tokens"] + line["sampled_tokens"] for line in lines)


def test_a_session_that_a_cap_stops_is_charged_once(serve: Serve) -> None:
    untouched, server = serve(researcher), serve(researcher)
    run(settings("anthropic", untouched.url), run_dir="whole", progress=False)
    lines = lines_of(Path("whole/ledger.jsonl"))
    _, in_session, *_ = [i for i, line in enumerate(lines) if line["purpose"] == "smoke"]
    cap = tokens(lines[:in_session]) + 1  # reached by the smoke episodes of `validate`
    with pytest.raises(CapReached, match=r"before the next \d+ rollouts \(null\)"):
        run({**settings("anthropic", server.url), "cap.tokens": cap}, run_dir="run", progress=False)
    spent, _ = charged(Path("run"))
    assert spent.calls == 3 and same(spent, server.total)  # the word, and two turns
    word = tokens([line for line in lines if line["purpose"] == "probe"])
    cap = tokens(lines_of(Path("run/ledger.jsonl"))) + word + 1
    with pytest.raises(CapReached, match=r"\(null\)"):  # in the session that was begun again
        resume("run", {"cap.tokens": cap}, progress=False)
    assert same(charged(Path("run"))[0], server.total)
    resume("run", {"cap.tokens": 0}, progress=False)
    spent, probes = charged(Path("run"))
    assert probes == 3 and same(spent, server.total)
    assert len(server.bodies) == len(untouched.bodies) + 2
    assert archived(Path("run")) == archived(Path("whole"))


@kinds
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"model": "other"}, "answers 404: no model other"),
        ({"api_key_env": "TOY_WRONG_KEY"}, r"answers 401: invalid key Bearer \*\*\*"),
        ({"base_url": "http://127.0.0.1:9"}, "cannot be reached"),
        ({"api_key_env": "TOY_NO_KEY"}, "this environment variable is not set"),
    ],
)
def test_what_is_wrong_with_the_proposer_is_one_line_before_anything_is_made(
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    wrong: Mapping[str, Any],
    said: str,
) -> None:
    monkeypatch.setenv("TOY_WRONG_KEY", "sk-wrong")
    server = serve(researcher)
    chosen = settings(kind, server.url, retries=0, **wrong)
    with pytest.raises(InputError, match=said) as caught:
        run(chosen, run_dir="run", progress=False)
    assert caught.value.exit_code == 2 and "\n" not in str(caught.value)
    assert not Path("run").exists() and server.spent == []


def test_a_proposer_of_unknown_cost_is_refused_under_a_cap_in_usd(serve: Serve) -> None:
    server = serve(researcher)
    chosen = {**settings("openai", server.url, prices=None), "cap.usd": 1}
    with pytest.raises(InputError, match=r"cap\.usd=1 cannot be kept: proposer=openai"):
        run(chosen, run_dir="run", progress=False)
    assert not server.bodies


def killed_runs(kind: str, url: str, folder: str, steps: Iterator[int]) -> int:
    """Run to the end, killed after so many lines of transcripts at a time; return how often."""
    here = Path(__file__).parent
    given = os.environ.get("PYTHONPATH", "")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here.parent), given])}
    kills = 0
    while True:
        command = [sys.executable, str(here / "agent_run.py"), kind, url, folder, str(next(steps))]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode == 0:
            return kills
        assert done.returncode == -signal.SIGKILL, done.stderr
        kills += 1


def check_killed(serve: Serve, kind: str, steps: Iterator[int]) -> int:
    """Kill a run at these places and compare it with one that was left alone; return how often."""
    server, untouched = serve(researcher), serve(researcher)
    run(settings(kind, untouched.url), run_dir="whole", progress=False)
    kills = killed_runs(kind, server.url, "killed", steps)
    assert archived(Path("killed")) == archived(Path("whole"))
    assert ledger_of(Path("killed")) == ledger_of(Path("whole"))
    paid = len(server.bodies) - len(untouched.bodies)
    spent, probes = charged(Path("killed"))
    assert probes == kills + 1 and paid == kills  # a word for each start; no session's turn twice
    assert same(spent, server.total)
    return kills


def test_a_run_killed_in_its_sessions_goes_on_without_paying_twice(serve: Serve) -> None:
    """Killed after a reply in the middle of a session, and after its first check."""
    assert check_killed(serve, "anthropic", iter([5, 5, 0])) == 2


@pytest.mark.slow
@kinds
def test_a_run_killed_after_every_line_of_its_transcripts(serve: Serve, kind: str) -> None:
    def steps() -> Iterator[int]:
        while True:
            yield 2  # `begin`, and one more

    assert check_killed(serve, kind, steps()) > 2 * TURNS

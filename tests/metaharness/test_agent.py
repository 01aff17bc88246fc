"""The proposers ``anthropic`` and ``openai`` against servers that speak the real protocols."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_kit import (
    FINISH,
    H0,
    WAYS,
    PlainWorkspace,
    about,
    faulty,
    file,
    good,
    proposed,
    proposer_of,
    transcript_of,
)
from attrs import astuple, evolve
from proposer_server_kit import KEY, Ask, Fault, ModelServer, Said, Script

from whale_core.errors import InputError, RunFolderError
from whale_core.records import Spent
from whale_core.testing.contracts import check_proposer
from whale_metaharness.proposers.transcript import transcript_path

Serve = Callable[[Script], ModelServer]
ways = pytest.mark.parametrize(("kind", "stream"), WAYS)
few = pytest.mark.parametrize(("kind", "stream"), [WAYS[0], WAYS[3]])


def same(spent: Spent, server: ModelServer) -> bool:
    return astuple(spent) == pytest.approx(astuple(server.total))


@pytest.fixture
def workspace(tmp_path: Path) -> PlainWorkspace:
    return PlainWorkspace(tmp_path / "iteration")


@ways
def test_a_session_reads_writes_tries_and_hands_in_at_the_cost_that_the_server_counts(
    serve: Serve, workspace: PlainWorkspace, kind: str, stream: bool
) -> None:
    server = serve(good)
    made = proposed(proposer_of(kind, server.url, stream), workspace)
    assert made.failure == ""
    assert [each.source for each in made.candidates] == [
        H0.replace("A = 1", "A = 3"),
        H0.replace("B = 2", "B = 4"),
    ]
    assert [each.axis for each in made.candidates] == ["A", "B"]
    assert len(server.bodies) == 4 and same(made.spent, server)
    assert made.spent.cached_tokens > 0 and made.spent.usd > 0
    assert len(workspace.validated) == 2  # `a` once, though it was validated and handed in
    assert workspace.rehearsed == [(made.candidates[0].source, "e1")]
    last = server.bodies[-1]["messages"]
    told = json.dumps(last)
    assert "all gates let it pass" in told and "It ended with: a" in told
    assert "archive/h0000/harness.py  " in told and "accepted" in told
    assert bool(server.bodies[0].get("stream")) is stream
    assert KEY not in "".join(path.read_text() for path in _files(workspace.root.parent))


def test_the_messages_api_is_asked_to_keep_the_conversation(
    serve: Serve, workspace: PlainWorkspace
) -> None:
    server = serve(good)
    proposed(proposer_of("anthropic", server.url), workspace)
    for body in server.bodies:
        assert body["system"][0]["cache_control"] == {"type": "ephemeral"}
        marked = [
            index
            for index, message in enumerate(body["messages"])
            if message["role"] == "user" and "cache_control" in message["content"][-1]
        ]
        assert marked[-1] == len(body["messages"]) - 1 and len(marked) <= 2
        assert str(body).count("cache_control") <= 4  # the most that the API takes


@few
@pytest.mark.parametrize("which", [0, 2])
@pytest.mark.parametrize(
    "fault",
    [
        Fault(500),
        Fault(529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
        Fault(429, headers={"retry-after": "0.05"}),
        Fault(hang_up=True),
        Fault(200, "<html>gateway</html>"),
        Fault(200, {"usage": None}),
    ],
    ids=["500", "529", "429", "hang-up", "html", "no-usage"],
)
def test_a_passing_fault_costs_nothing_and_is_written_down(
    serve: Serve, workspace: PlainWorkspace, kind: str, stream: bool, which: int, fault: Fault
) -> None:
    server = serve(faulty({which: fault}))
    made = proposed(proposer_of(kind, server.url, stream), workspace)
    assert made.failure == "" and len(made.candidates) == 2
    assert len(server.bodies) == 5 and same(made.spent, server)
    failures = [line for line in transcript_of(workspace) if line["kind"] == "failure"]
    assert len(failures) == 1 and failures[0]["reason"]


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_a_stream_that_breaks_off_is_paid_for_what_it_told_and_asked_again(
    serve: Serve, workspace: PlainWorkspace, kind: str
) -> None:
    broken = Said("I look around.", [("list_files", {})], cut=5)
    server = serve(faulty({0: broken}))
    made = proposed(proposer_of(kind, server.url, stream=True), workspace)
    assert made.failure == "" and len(made.candidates) == 2
    assert len(server.bodies) == 5 and same(made.spent, server)
    assert made.spent.calls == (5 if kind == "anthropic" else 4)  # counts come last in the other


@few
def test_an_endpoint_asks_for_a_pause_and_gets_it(
    serve: Serve, workspace: PlainWorkspace, kind: str, stream: bool
) -> None:
    waited: list[float] = []
    original = asyncio.sleep

    async def sleep(seconds: float, *more: Any) -> None:
        waited.append(seconds)
        await original(0)

    server = serve(faulty({1: Fault(429, headers={"retry-after": "7"})}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whale_metaharness.proposers.agent.asyncio.sleep", sleep)
        made = proposed(proposer_of(kind, server.url, stream), workspace)
    assert made.failure == "" and 7.0 in waited


@ways
def test_an_endpoint_that_stays_down_ends_the_session_which_keeps_what_is_valid(
    serve: Serve, workspace: PlainWorkspace, kind: str, stream: bool
) -> None:
    def script(ask: Ask) -> Said | Fault:
        if ask.turn == 0:
            return Said("", [file("a", f"{H0}# a"), about("a"), file("b", f"{H0}# bad")])
        return Fault(503, {"error": {"message": f"down, said to {KEY}"}})

    server = serve(script)
    made = proposed(proposer_of(kind, server.url, stream, retries=2), workspace)
    assert made.failure == "the endpoint answers 503: down, said to ***"
    assert [each.source for each in made.candidates] == [f"{H0}# a"]
    assert len(server.bodies) == 4 and same(made.spent, server)
    assert [path.name for path in workspace.outbox.iterdir()] == ["a"]
    assert transcript_of(workspace)[-1] == {"kind": "end", "failure": made.failure}


@few
@pytest.mark.parametrize("status", [400, 401, 413])
def test_a_request_that_is_refused_is_not_repeated(
    serve: Serve, workspace: PlainWorkspace, kind: str, stream: bool, status: int
) -> None:
    server = serve(faulty({2: Fault(status, {"error": {"message": "no"}})}))
    made = proposed(proposer_of(kind, server.url, stream), workspace)
    assert made.failure == f"the endpoint answers {status}: no"
    assert len(made.candidates) == 2 and len(server.bodies) == 3 and same(made.spent, server)


@few
def test_a_stall_ends_at_the_deadline_of_the_call_and_then_of_the_session(
    serve: Serve, workspace: PlainWorkspace, kind: str, stream: bool
) -> None:
    server = serve(faulty({1: Said("late", seconds=1.0)}))
    made = proposed(proposer_of(kind, server.url, stream, call_seconds=0.4), workspace)
    assert made.failure == "" and len(server.bodies) == 5
    again = PlainWorkspace(workspace.root.parent / "again")
    server = serve(lambda ask: Fault(500, seconds=0.2))
    made = proposed(proposer_of(kind, server.url, stream, session_seconds=0.3), again)
    assert made.failure.startswith("the ") and "proposer.session_seconds" in made.failure
    assert len(server.bodies) <= 3


@few
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"iteration_tokens": 9000}, r"proposer\.iteration_tokens=9000 is reached"),
        ({"iteration_usd": 0.5}, r"proposer\.iteration_usd=0\.5 is reached"),
        ({"run_tokens": 9000}, r"proposer\.run_tokens=9000 is reached"),
        ({"run_usd": 0.5}, r"proposer\.run_usd=0\.5 is reached"),
        ({"turns": 2}, r"not done after 2 turns \(proposer\.turns\)"),
    ],
)
def test_a_session_that_overspends_ends_and_keeps_what_it_has(
    serve: Serve,
    workspace: PlainWorkspace,
    kind: str,
    stream: bool,
    settings: dict[str, Any],
    said: str,
) -> None:
    def script(ask: Ask) -> Said:
        calls = [file("a", f"{H0}# {ask.turn}"), about("a")]
        return Said("", calls, usage={"sampled": 60_000} if ask.turn == 1 else {})

    server = serve(script)
    made = proposed(proposer_of(kind, server.url, stream, **settings), workspace)

    assert re.search(said, made.failure), made.failure
    assert len(server.bodies) == 2 and same(made.spent, server)
    assert [each.source for each in made.candidates] == [f"{H0}# 1"]


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
def test_the_caps_of_a_run_hold_over_all_its_sessions(
    serve: Serve, tmp_path: Path, kind: str
) -> None:
    server = serve(good)
    one, two, three, four = (PlainWorkspace(tmp_path / f"iteration-{n}") for n in range(4))
    first = proposed(proposer_of(kind, server.url), one)
    cap = first.spent.prompt_tokens + first.spent.sampled_tokens + 1
    made = [
        proposed(proposer_of(kind, server.url, run_tokens=cap), each) for each in (two, three, four)
    ]
    assert all(f"proposer.run_tokens={cap:g} is reached" in each.failure for each in made)
    assert [each.spent.calls for each in made] == [1, 0, 0]
    assert len(server.bodies) == 5


@ways
def test_garbage_out_of_the_model_is_answered_and_survived(
    serve: Serve, workspace: PlainWorkspace, kind: str, stream: bool
) -> None:
    huge = "x" * 300_000
    calls: list[tuple[Any, Any]] = [
        ("write_file", '{"path": "outbox/a/harness.py", "content": "cut off he'),
        ("read_file", "[1, 2]"),
        ("rm", {"path": "."}),
        ("read_file", {"path": "../secret"}),
        ("read_file", {"path": "/etc/passwd"}),
        ("read_file", {"path": "archive/../../secret"}),
        ("read_file", {"path": "nul\0byte"}),
        ("read_file", {"path": "n" * 400}),
        ("read_file", {"path": 7}),
        ("read_file", {}),
        ("read_file", {"path": "state.json", "encoding": "x"}),
        ("write_file", {"path": "archive/h0000/harness.py", "content": "mine"}),
        ("write_file", {"path": "outbox/a/../../archive/x", "content": "mine"}),
        ("write_file", {"path": "outbox/.a/harness.py", "content": "mine"}),
        ("write_file", {"path": "outbox/a/harness.py", "content": huge}),
        ("edit_file", {"path": "outbox/a/harness.py", "old": "A", "new": "B"}),
        ("copy_file", {"source": "link", "path": "outbox/a/harness.py"}),
        ("validate", {"candidate": "nobody"}),
        ("try", {"candidate": "nobody", "example": "e1"}),
        ("search", {"text": ""}),
        ("finish", {"candidates": ["nobody"]}),
        ("write_file", {"path": "outbox/\ud800/harness.py", "content": "\ud800"}),
        ("list_files", {"path": "outbox"}),
    ]
    (workspace.root.parent / "secret").write_text("TOP SECRET")
    (workspace.root / "link").symlink_to(workspace.root.parent / "secret")
    sent: list[Any] = []

    def script(ask: Ask) -> Said | Fault:
        sent.append(ask.told)
        return Said(huge, calls) if ask.turn == 0 else good(ask)

    server = serve(script)
    made = proposed(proposer_of(kind, server.url, stream), workspace)
    assert made.failure == "" and same(made.spent, server)
    answers = [line for line in transcript_of(workspace) if line["kind"] == "request"][1]["turns"]
    (turn,) = answers
    wrong = [result["error"] for result in turn["results"]]
    assert wrong == [True] * (len(calls) - 1) + [False]
    assert "TOP SECRET" not in json.dumps(server.bodies)
    assert (workspace.archive / "h0000" / "harness.py").read_text() == H0
    assert sorted(p.name for p in workspace.root.iterdir()) == [
        *("archive", "link", "outbox", "state.json", "traces"),
    ]


@ways
def test_what_a_gate_refuses_comes_back_and_can_be_mended(
    serve: Serve, workspace: PlainWorkspace, kind: str, stream: bool
) -> None:
    def script(ask: Ask) -> Said:
        if ask.turn == 0:
            return Said("", [file("a", f"{H0}# bad"), about("a"), ("finish", {})])
        if ask.turn == 1:
            assert "a is refused by the gate parse: it says bad" in ask.told
            edit = {"path": "outbox/a/harness.py", "old": "bad", "new": "mended"}
            return Said("", [("edit_file", edit)])
        return Said("I am done.", stop="end")  # without calling finish

    server = serve(script)
    made = proposed(proposer_of(kind, server.url, stream), workspace)
    assert made.failure == ""
    assert [each.source for each in made.candidates] == [f"{H0}# mended"]


def test_after_its_repairs_a_session_hands_in_what_it_has(
    serve: Serve, workspace: PlainWorkspace
) -> None:
    def script(ask: Ask) -> Said:
        return Said("", [file("a", f"{H0}# bad"), about("a"), ("finish", {})])

    server = serve(script)
    made = proposed(proposer_of("anthropic", server.url, repairs=3), workspace)
    assert made.failure == "" and len(server.bodies) == 4  # the archive keeps the gate's reason
    assert [each.source for each in made.candidates] == [f"{H0}# bad"]


def test_a_model_without_a_word_or_a_candidate_ends_by_itself(
    serve: Serve, workspace: PlainWorkspace
) -> None:
    for kind in ("anthropic", "openai"):
        again = PlainWorkspace(workspace.root.parent / kind)
        server = serve(lambda ask: Said(""))
        made = proposed(proposer_of(kind, server.url), again)
        assert made.failure == "the session ended without a candidate"
        assert len(server.bodies) == 3 and same(made.spent, server)


def test_more_candidates_than_are_wanted_are_chosen_from(
    serve: Serve, workspace: PlainWorkspace
) -> None:
    def script(ask: Ask) -> Said:
        if ask.turn == 0:
            made = [file(slot, f"{H0}# {slot}") for slot in "abc"]
            return Said("", [*made, ("finish", {})])
        assert "3 candidates where 2 are wanted" in ask.told
        return Said("", [("finish", {"candidates": ["c", "b"]})])

    made = proposed(proposer_of("openai", serve(script).url), workspace)
    assert [each.source[-1] for each in made.candidates] == ["b", "c"]


def test_a_reply_that_is_cut_off_and_a_refusal_are_told_apart(
    serve: Serve, workspace: PlainWorkspace
) -> None:
    def script(ask: Ask) -> Said:
        if ask.turn == 0:
            return Said("Let me thi", stop="length")
        assert "cut off at 16384 tokens" in ask.told
        return Said("I will not.", stop="refusal")

    for kind in ("anthropic", "openai"):
        again = PlainWorkspace(workspace.root.parent / kind)
        made = proposed(proposer_of(kind, serve(script).url), again)
        assert made.failure == "the model refused to go on" and made.spent.calls == 2


def test_long_files_are_read_to_their_end_and_searched(
    serve: Serve, workspace: PlainWorkspace
) -> None:
    read = {"path": "traces/e1.jsonl", "first": 2}
    seen: list[str] = []

    def script(ask: Ask) -> Said:
        seen.append(ask.told)
        if ask.turn == 0:
            return Said("", [("read_file", read), ("search", {"text": "failure 2"})])
        if ask.turn == 1:
            assert "first=2, skip=24000; the file has 3 lines]" in ask.told
            assert "traces/e1.jsonl:3: " in ask.told
            return Said("", [("read_file", {**read, "last": 2, "skip": 24_000})])
        return FINISH

    server = serve(script)
    proposed(proposer_of("anthropic", server.url), workspace)
    line = (workspace.root / "traces" / "e1.jsonl").read_text().split("\n")[1]
    assert line[24_000:] in seen[2] and len(max(seen, key=len)) < 30_000


def test_a_session_may_be_told_that_it_validates_too_much(
    serve: Serve, workspace: PlainWorkspace
) -> None:
    workspace.most = 1
    made = proposed(proposer_of("openai", serve(good).url), workspace)
    assert made.failure == "" and len(made.candidates) == 2  # the search checks them anyway


# --- a session that is begun again ----------------------------------------------------------------


@few
@pytest.mark.parametrize("lines", range(1, 14, 2))
def test_a_session_cut_anywhere_goes_on_without_paying_twice(
    serve: Serve, tmp_path: Path, kind: str, stream: bool, lines: int
) -> None:
    whole = PlainWorkspace(tmp_path / "a" / "iteration")

    def script(ask: Ask) -> Said | Fault:
        if ask.turn == 1:
            return Said("", [("read_file", "{")], usage={"sampled": 5000})
        return good(evolve(ask, turn=max(ask.turn - 1, 0)))

    server = serve(script)
    wanted = proposed(proposer_of(kind, server.url, stream), whole)
    text = transcript_path(whole).read_bytes().splitlines(keepends=True)
    assert len(text) > lines + 1
    again = PlainWorkspace(tmp_path / "b" / "iteration")
    transcript_path(again).parent.mkdir()
    torn = b"".join(text[:lines]) + text[lines][: len(text[lines]) // 2]
    transcript_path(again).write_bytes(torn)
    paid = sum(b'"kind": "reply"' in line for line in text[:lines])

    first = len(server.bodies)
    made = proposed(proposer_of(kind, server.url, stream), again)
    assert len(server.bodies) - first == first - paid
    assert [each.source for each in made.candidates] == [e.source for e in wanted.candidates]
    assert made.spent.calls == wanted.spent.calls
    assert made.spent.sampled_tokens == wanted.spent.sampled_tokens
    checks = sum(b'"kind": "check"' in line for line in text[:lines])
    assert len(again.validated) == 2 - checks


def test_what_was_paid_counts_even_where_it_cannot_be_used_again(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve(good)
    first = PlainWorkspace(tmp_path / "iteration")
    whole = proposed(proposer_of("anthropic", server.url), first)

    shutil.rmtree(first.root)
    other = PlainWorkspace(tmp_path / "iteration", instructions="Others.")
    made = proposed(proposer_of("anthropic", server.url), other)
    assert made.spent.calls == 2 * whole.spent.calls and same(made.spent, server)


def test_a_transcript_that_was_changed_is_one_line(serve: Serve, tmp_path: Path) -> None:

    server = serve(good)
    workspace = PlainWorkspace(tmp_path / "iteration")
    path = transcript_path(workspace)
    path.parent.mkdir()
    path.write_text('{"kind": "begin"}\nrubbish\n{"kind": "end"}\n')
    with pytest.raises(RunFolderError, match=r"iteration\.jsonl, line 2: not what a session"):
        proposed(proposer_of("anthropic", server.url), workspace)
    assert not server.bodies


@few
def test_the_contract_of_a_proposer_holds(serve: Serve, kind: str, stream: bool) -> None:
    def script(ask: Ask) -> Said:
        wanted = 1 if "At most 1 candidate" in str(ask.body["messages"]) else 3
        calls: list[tuple[str, Any]] = []
        for slot in "abc"[:wanted]:
            path = f"outbox/{slot}/harness.py"
            edit = {"path": path, "old": "MAX_TOKENS = 8", "new": f"MAX_TOKENS = 9  # {slot}"}
            copy = {"source": "archive/h0000/harness.py", "path": path}
            calls += [("copy_file", copy), ("edit_file", edit), about(slot)]
        return Said("", [*calls, ("finish", {})])

    proposer = proposer_of(kind, serve(script).url, stream)
    check_proposer(lambda config, setup: proposer, None)


# --- before anything is spent ---------------------------------------------------------------------


@ways
def test_the_probe_asks_as_a_session_does_and_is_charged(
    serve: Serve, kind: str, stream: bool
) -> None:
    server = serve(faulty({0: Fault(500)}))
    spent = asyncio.run(proposer_of(kind, server.url, stream).probe())
    assert same(spent, server) and spent.calls == 1
    body = server.bodies[0]
    assert body["tools"] and 16 in body.values()


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"model": "other"}, r"model other: the endpoint answers 404: no model other; see the key"),
        ({"key": "wrong"}, r"answers 401: invalid key .*\*\*\*; see the key in the variable"),
        ({"path": "/nowhere"}, r"answers 404: no route .*; see the key"),
        ({"gone": True}, r"cannot be reached: .*; is it running"),
    ],
)
def test_a_probe_that_fails_is_one_line(
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    how: dict[str, Any],
    said: str,
) -> None:
    server = serve(good)
    monkeypatch.setenv("TOY_PROPOSER_KEY", how.get("key", KEY))
    url = server.url + how.get("path", "")
    if how.get("gone"):
        url = "http://127.0.0.1:9"
    settings = {"model": how["model"]} if "model" in how else {}
    with pytest.raises(InputError, match=f"proposer {kind}: http.*{said}") as caught:
        asyncio.run(proposer_of(kind, url, retries=1, **settings).probe())
    assert "\n" not in str(caught.value) and how.get("key", KEY) not in str(caught.value)
    assert server.spent == []


def test_settings_that_cannot_work_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"proposer\.api_key_env=TOY_PROPOSER_KEY: .* not set"):
        proposer_of("openai", "http://127.0.0.1:9")
    monkeypatch.setenv("TOY_PROPOSER_KEY", KEY)
    with pytest.raises(InputError, match=r"proposer\.model: missing, name the model"):
        proposer_of("anthropic", "http://127.0.0.1:9", model="")
    with pytest.raises(InputError, match=r"proposer\.run_usd=2 cannot be kept: .*proposer\.prices"):
        proposer_of("anthropic", "http://127.0.0.1:9", prices=None, run_usd=2.0)
    listed = proposer_of("anthropic", "http://127.0.0.1:9", model="claude-opus-5", prices=None)
    assert listed.priced and not listed.notes
    unknown = proposer_of("openai", "http://127.0.0.1:9", prices=None)
    assert not unknown.priced and "proposer.prices is not set" in unknown.notes[0]


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]

"""``claude-code`` with stand-ins for the program: hostile ones get nothing, a good one proposes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from claude_kit import KEY, ONE, Provider, listening, provider, says, stand_in
from metaharness_fakes import H0, FakeContext, FakeDomain, run, search
from workspace_kit import make_archive, opened

from whale_core.abilities import Probes
from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.roles import Proposal
from whale_metaharness.proposers.claude_code.proposer import ClaudeCodeProposer
from whale_metaharness.proposers.settings import ClaudeCodeConfig

Propose = Callable[..., Proposal]


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with provider() as made:
        yield made


def proposer(folder: Path, upstream: Provider, body: str, **settings: Any) -> ClaudeCodeProposer:
    program = stand_in(folder / "bin", body)
    config = ClaudeCodeConfig(program=program, base_url=upstream.url, **settings)
    return ClaudeCodeProposer(config, Setup(seed=0))


@pytest.fixture
def propose(tmp_path: Path, upstream: Provider) -> Propose:
    """Run one session of a stand-in and return its proposal."""

    def session(body: str, **settings: Any) -> Proposal:
        make_archive(tmp_path / "h")
        with opened(tmp_path / "h") as workspace:
            return asyncio.run(proposer(tmp_path, upstream, body, **settings).propose(workspace))

    return session


def session_folder(folder: Path) -> Path:
    return folder / "h/proposals/transcripts/phase-001-iteration-002"


def test_a_good_agent_proposes(tmp_path: Path, upstream: Provider, propose: Propose) -> None:
    source = H0.replace("You answer.", "You think.")
    made = propose(
        """
status, text = ask()
assert status == 200, text
brief = Path("brief.md").read_text()
source = Path("archive/h0000/harness.py").read_text()
propose("mine", source.replace("You answer.", "You think."), parent="h0000", axis="prompt",
        hypothesis=brief, changes="the prompt")
say(type="result", total_cost_usd=0.5, usage={"output_tokens": 20}, result=sys.argv[1:])
"""
    )
    assert made.failure == "" and made.spent == ONE
    (candidate,) = made.candidates
    assert (candidate.source, candidate.parent) == (source, "h0000")
    assert candidate.hypothesis == "Change one mechanism."
    session = json.loads((session_folder(tmp_path) / "session.json").read_text())
    assert session["status"] == 0 and session["agent"]["total_cost_usd"] == 0.5
    assert session["spent"]["sampled_tokens"] == 20
    arguments = session["agent"]["result"]
    assert "3 candidates" in arguments[arguments.index("--print") + 1]
    assert len((session_folder(tmp_path) / "transcript.jsonl").read_text().splitlines()) == 2
    kept = tmp_path / "h/proposals/phase-001-iteration-002/outbox/mine/harness.py"
    assert kept.read_text() == source


def test_an_agent_finds_no_way_out(
    tmp_path: Path, propose: Propose, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("SECRET-FILE")
    monkeypatch.setenv("OTHER_TOKEN", "SECRET-ENV")
    with listening() as foreign:
        port = foreign.getsockname()[1]
        made = propose(
            f"""
found = {{}}
def attempt(name, work):
    try:
        found[name] = str(work())
    except Exception as error:
        found[name] = type(error).__name__

attempt("this machine", lambda: socket.create_connection(("127.0.0.1", {port}), 3))
attempt("a foreign host", lambda: socket.create_connection(("192.0.2.1", 80), 3))
attempt("a name", lambda: socket.create_connection(("example.org", 80), 3))
attempt("through the proxy", lambda: ask("GET", "http://127.0.0.1:{port}/"))
attempt("connect", lambda: ask("CONNECT", "127.0.0.1:{port}"))
attempt("echo", lambda: ask(path="/echo"))
attempt("another path", lambda: ask(path="/v1/files"))
attempt("a reply", ask)
attempt("another key", lambda: ask(**{{"x-api-key": "mine"}}))
attempt("environment", lambda: dict(os.environ))
attempt("processes", lambda: [
    (path / name).read_bytes() for path in Path("/proc").glob("[0-9]*")
    for name in ("environ", "cmdline") if os.access(path / name, os.R_OK)])
attempt("files", lambda: [
    path.read_bytes() for top in ("/run", "/etc", "/tmp", "/workspace", "/home")
    for path in Path(top).rglob("*") if path.is_file()])
attempt("a secret", lambda: Path("{tmp_path}/secret").read_text())
attempt("the controller's files", lambda: os.listdir("{tmp_path}"))
attempt("the account", lambda: list(Path("/").rglob("calls.jsonl")))
attempt("memory", lambda: open("/proc/1/mem", "rb").read(1))
for name in ("brief.md", "archive/h0000/harness.py", "mine", "../x", "/etc/x", "/run/x"):
    attempt("write " + name, lambda: Path(name).write_text("mine"))
attempt("rename", lambda: os.rename("archive/h0000", "archive/h0001"))
attempt("remount", lambda: subprocess.run(
    ["/usr/bin/mount", "-o", "remount,rw", "/workspace"], capture_output=True).returncode)
say(type="result", found=found)
"""
        )
        foreign.settimeout(0)
        with pytest.raises(BlockingIOError):
            foreign.accept()
    assert made.candidates == () and made.failure == "the agent left no candidate in the outbox"
    assert made.spent == ONE + ONE  # "a reply" and "another key" were answered
    session = session_folder(tmp_path)
    found = json.loads((session / "session.json").read_text())["agent"]["found"]
    for name in ("this machine", "a foreign host", "a name"):
        assert found[name] in ("ConnectionRefusedError", "OSError", "gaierror", "TimeoutError")
    for name in ("through the proxy", "connect", "echo", "another path"):
        assert found[name].startswith("(403"), (name, found[name])
    assert found["a reply"].startswith("(200") and found["another key"].startswith("(200")
    assert found["a secret"] == found["the controller's files"] == "FileNotFoundError"
    assert found["the account"] == "[]"
    refused = ("OSError", "PermissionError")
    assert found["memory"] in refused
    assert {
        name: f for name, f in found.items() if name.startswith("write") and f not in refused
    } == {}
    assert found["rename"] in refused and found["remount"] != "0"
    everything = json.dumps(found) + "".join(
        path.read_text() for path in session.iterdir() if path.is_file()
    )
    for secret in (KEY, "SECRET-FILE", "SECRET-ENV"):
        assert secret not in everything
    assert "held-by-the-proxy" in found["environment"]  # the attempts did work


def test_links_and_odd_files_in_the_outbox_are_left_there(tmp_path: Path, propose: Propose) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("SECRET = 1\n")
    made = propose(
        f"""
def slot(name):
    (Path("outbox") / name).mkdir()
    return Path("outbox") / name
os.symlink("{secret}", slot("a") / "harness.py")
os.symlink("{secret.parent}", "outbox/b")
os.symlink("/workspace/archive/h0000/harness.py", slot("c") / "harness.py")
os.mkfifo(slot("d") / "harness.py")
(slot("e") / "harness.py").mkdir()
(slot("f") / "harness.py").write_bytes(b"\\xff")
(slot("g") / "harness.py").write_text("GOOD = 1\\n")
os.symlink("{secret}", "outbox/g/metadata.json")
(slot("h") / "other.py").write_text("x")
"""
    )
    assert [candidate.source for candidate in made.candidates] == ["\udcff", "GOOD = 1\n"]
    assert made.candidates[1].changes == ""


def alive(seconds: str) -> list[str]:
    """Return the processes that sleep for that long."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes()
        except OSError:
            continue
        if f"sleep\0{seconds}".encode() in text:
            found.append(text.decode(errors="replace"))
    return found


def test_a_deadline_ends_all_that_a_session_started(tmp_path: Path, propose: Propose) -> None:
    started = time.monotonic()
    made = propose(
        """
ask()
propose("half", "x = 1\\n")
for _ in range(3):
    subprocess.Popen(["/usr/bin/sleep", "987.125"], start_new_session=True)
time.sleep(987)
""",
        session_seconds=2.0,
    )
    assert time.monotonic() - started < 20
    assert len(made.candidates) == 1 and made.spent == ONE  # what it wrote and what it cost
    assert alive("987.125") == []
    propose("subprocess.Popen(['/usr/bin/sleep', '987.25'], start_new_session=True)")
    assert alive("987.25") == []  # nor does anything outlive a session that ended by itself
    made = propose("time.sleep(987)", session_seconds=0.5)
    assert made.failure == "no candidate within 0.5 s (session_seconds)"


CONTROLLER = """
import asyncio, sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
from claude_kit import Provider
from test_claude_code import proposer
from workspace_kit import make_archive, opened
folder = Path(sys.argv[3])
make_archive(folder / "h")
with opened(folder / "h") as workspace:
    agent = proposer(folder, Provider(sys.argv[4]), sys.argv[5])
    asyncio.run(agent.propose(workspace))
"""


def test_the_jail_ends_with_its_controller(tmp_path: Path, upstream: Provider) -> None:
    here = Path(__file__).parent
    body = "ask()\nsubprocess.run(['/usr/bin/sleep', '986.375'])"
    arguments = [str(here), str(here.parent), str(tmp_path), upstream.url, body]
    controller = subprocess.Popen([sys.executable, "-c", CONTROLLER, *arguments])
    limit = time.monotonic() + 60
    while not alive("986.375") and time.monotonic() < limit:
        assert controller.poll() is None
        time.sleep(0.05)
    assert alive("986.375")
    controller.kill()
    controller.wait()
    while alive("986.375") and time.monotonic() < limit:
        time.sleep(0.05)
    assert alive("986.375") == []
    calls = (session_folder(tmp_path) / "calls.jsonl").read_text()
    assert json.loads(calls)["usage"]["output_tokens"] == 20  # paid, and known to the next try


def test_a_session_that_is_begun_again_keeps_its_cost(tmp_path: Path, upstream: Provider) -> None:
    make_archive(tmp_path / "h")

    async def cancelled() -> None:
        with opened(tmp_path / "h") as workspace:
            agent = proposer(tmp_path, upstream, "say(type='first')\nask()\ntime.sleep(987)")
            task = asyncio.create_task(agent.propose(workspace))
            while not upstream.billed:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cancelled())
    with opened(tmp_path / "h") as workspace:
        again = proposer(tmp_path, upstream, "ask()\nsay(type='second')\npropose('a', 'x = 1\\n')")
        assert asyncio.run(again.propose(workspace)).spent == ONE + ONE
    assert len(upstream.billed) == 2
    lines = (session_folder(tmp_path) / "transcript.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["type"] for line in lines]
    assert kinds == ["begin", "first", "begin", "second"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("print('no json')\nsys.exit('no\\nsuch model')", "status 1: such model"),
        ("say(type='result', is_error=True, result='Credit\\nlow')", "status 0: Credit low"),
        ("os.kill(os.getpid(), 9)", "status 137: it said nothing"),
        ("sys.stdout.write('x' * (1 << 20))", "left no candidate"),
    ],
)
def test_a_failing_agent_is_told_in_one_line(body: str, said: str, propose: Propose) -> None:
    made = propose(body)
    assert made.candidates == () and said in made.failure and "\n" not in made.failure


def test_limits_are_the_proxy_s(propose: Propose) -> None:
    made = propose(
        "say(type='result', is_error=True, result=[ask()[0] for _ in range(4)])", turns=2
    )
    assert made.failure.endswith("[200, 200, 403, 403]") and made.spent == ONE + ONE


def test_a_run_has_a_cap_over_all_sessions(tmp_path: Path, upstream: Provider) -> None:
    agent = proposer(tmp_path, upstream, "print([ask()[0] for _ in range(3)])", run_usd=0.0040)
    make_archive(tmp_path / "h")
    calls, failures = [], []
    for iteration in (2, 3, 4):
        with opened(tmp_path / "h", iteration=iteration) as workspace:
            made = asyncio.run(agent.propose(workspace))
        calls.append(made.spent.calls)
        failures.append(made.failure)
    assert calls == [3, 1, 0] and len(upstream.billed) == 4  # a call costs 0.00128 USD
    assert failures[2] == "the run's sessions have spent run_usd"


def test_the_search_goes_on_with_what_it_proposes(tmp_path: Path, upstream: Provider) -> None:
    agent = proposer(
        tmp_path,
        upstream,
        """
ask()
round = json.loads(Path("state.json").read_text())["iteration"]
if round == 2:
    source = Path("archive/h0000/harness.py").read_text()
    propose("good", source.replace("RETRIES = 0", "RETRIES = 1\\n    # EXAMPLE +"), parent="h0000")
    propose("bad", "class (")
elif round == 3:
    sys.exit(3)
""",
    )
    first, second, third = run(search(agent), FakeContext(tmp_path / "h"), 3)
    assert second.accepted.name != first.accepted.name
    assert [c.rejection and c.rejection.gate for c in second.candidates] == ["parse", None]
    assert second.proposer_spent == third.proposer_spent == ONE
    assert "the proposer failed: the agent ended with status 3" in third.accepted_reason


def test_a_key_from_a_file_with_its_line_end_works(
    propose: Propose, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", f"{KEY}\n")
    made = propose("propose('a', 'x = 1\\n')\nsys.exit(ask()[0] != 200)")
    assert (made.failure, made.spent) == ("", ONE)
    assert upstream.requests[0][1]["x-api-key"] == KEY


def test_a_wrong_key_or_model_is_found_before_the_run(
    tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whale_metaharness.proposers.claude_code.probe.WAITS", (0.01, 0.01))
    agent = proposer(tmp_path, upstream, "")
    assert isinstance(agent, Probes)
    assert asyncio.run(agent.probe()) == ONE
    ((_, sent, asked),) = upstream.requests
    assert sent["x-api-key"] == KEY and asked["model"] == "claude-opus-4-7"
    for status, said, tries in (
        (
            401,
            r"answers 401: .*bad key \*\*\*; see the key in",
            1,
        ),
        (404, "answers 404: .*; see the key in .* proposer.model", 1),
        (400, "answers 400: .*; see proposer.max_tokens", 1),
        (529, "answers 529: .*; is it running", 3),
    ):
        upstream.status = status
        before = len(upstream.requests)
        with pytest.raises(InputError, match=said) as caught:
            asyncio.run(agent.probe())
        assert KEY not in str(caught.value) and len(upstream.requests) == before + tries
    gone = proposer(tmp_path, Provider("http://127.0.0.1:9"), "")
    with pytest.raises(InputError, match=r"cannot be reached: .*refused"):
        asyncio.run(gone.probe())


def test_what_is_missing_is_said(
    tmp_path: Path, upstream: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = Setup(seed=0, domain=FakeDomain())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="program=no-such: no such program; install the agent"):
        ClaudeCodeProposer(ClaudeCodeConfig(program="no-such"), setup)
    program = stand_in(tmp_path / "bin", "")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    made = ClaudeCodeProposer(ClaudeCodeConfig(), setup)
    assert made.writes_code and Path(program).is_file()
    with pytest.raises(InputError, match=r"model=mine: its prices are not known; set proposer.pri"):
        ClaudeCodeProposer(ClaudeCodeConfig(model="mine"), setup)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(InputError, match="api_key_env=ANTHROPIC_API_KEY: this environment vari"):
        ClaudeCodeProposer(ClaudeCodeConfig(), setup)
    with pytest.raises(InputError, match="needs an API key: name its environment variable"):
        ClaudeCodeProposer(ClaudeCodeConfig(api_key_env=""), setup)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-\n-x")
    with pytest.raises(InputError, match="its value cannot be a key"):
        ClaudeCodeProposer(ClaudeCodeConfig(), setup)
    with pytest.raises(ValueError, match="base_url"):
        ClaudeCodeConfig(base_url="ftp://x")
    assert says("x")

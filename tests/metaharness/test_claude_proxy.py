"""The proxy of ``claude-code``: what it lets through, what it counts, what it keeps to itself."""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import pytest
from claude_kit import KEY, MODEL, ONE, PRICES, USAGE, Provider, provider, says

from whale_core.records import Spent
from whale_metaharness.proposers.claude_code.account import Account
from whale_metaharness.proposers.claude_code.proxy import Allowance, Proxy
from whale_metaharness.proposers.claude_code.requests import Scrubber, refusal, target_of
from whale_metaharness.proposers.claude_code.turnstile import PLACES
from whale_metaharness.proposers.claude_code.usage import UsageReader

HELLO = {"model": MODEL, "max_tokens": 9, "messages": []}


class UnixConnection(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))


def ask(path: Path, body: Any = HELLO, target: str = "/v1/messages", method: str = "POST") -> Any:
    connection = UnixConnection(path)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"x-api-key": "own", "authorization": "Bearer own", "x-forwarded-host": "evil"}
    connection.request(method, target, data, headers)
    reply: HTTPResponse = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    return reply.status, text, str(reply.headers)


@contextmanager
def proxied(folder: Path, upstream: Provider, **limits: Any) -> Iterator[tuple[Path, Account]]:
    account = Account.open(folder / "calls.jsonl", PRICES)
    limits = {"turns": 100, "usd": 1.0, **limits}
    proxy = Proxy(folder / "s", Allowance(upstream.url, KEY, MODEL, **limits), account)
    proxy.start()
    try:
        yield folder / "s", account
    finally:
        proxy.stop()
        (folder / "s").unlink()


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_gets_the_key_and_is_counted(stream: bool, tmp_path: Path) -> None:
    with provider(lambda request, number: says("héllo")) as upstream:
        with proxied(tmp_path, upstream) as (path, account):
            status, text, headers = ask(path, {**HELLO, "stream": stream}, "/v1/messages?beta=true")
            assert status == 200 and "llo" in text
            assert account.spent() == ONE
            assert KEY not in text + headers  # the provider told it in a header
        where, sent, _ = upstream.requests[0]
        assert where == "/v1/messages?beta=true" and sent["x-api-key"] == KEY
        assert "authorization" not in sent and "x-forwarded-host" not in sent
    assert Account.open(tmp_path / "calls.jsonl", PRICES).spent() == ONE


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "http://example.org/v1/messages"),
        ("POST", "//example.org/v1/messages"),
        ("POST", "/v1/messages/../files"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1/messages?url=http://example.org"),
        ("POST", "/v1/files"),
        ("GET", "/v1/messages"),
        ("GET", "/v1/models"),
        ("CONNECT", "example.org:443"),
        ("TRACE", "/v1/messages"),
    ],
)
def test_only_two_addresses_are_forwarded(method: str, target: str, tmp_path: Path) -> None:
    with provider() as upstream, proxied(tmp_path, upstream) as (path, account):
        status, text, _ = ask(path, target=target, method=method)
        assert (status, "not allowed" in text) == (403, method != "TRACE" or "not allowed" in text)
        assert upstream.requests == [] and account.calls == 0
    assert target_of("POST", "/v1/messages/count_tokens") is not None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "claude-other"}, "only the model"),
        ({"mcp_servers": [{"url": "http://example.org"}]}, "provider runs"),
        ({"container": "c1"}, "provider runs"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "provider runs"),
        ({"tools": [{"type": "code_execution_20250522", "name": "x"}]}, "provider runs"),
        ({"tools": {"type": "web_search"}}, "provider runs"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image", "source": {"type": "url", "url": "http://x.org"}}
                        ],
                    }
                ]
            },
            "provider fetches",
        ),
    ],
)
def test_the_provider_must_not_fetch_for_the_agent(changes: Any, said: str, tmp_path: Path) -> None:
    with provider() as upstream, proxied(tmp_path, upstream) as (path, _):
        status, text, _ = ask(path, {**HELLO, **changes})
        assert status == 403 and said in text
        assert upstream.requests == []


def test_requests_that_an_agent_makes_are_allowed() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    request = {
        **HELLO,
        "tools": [{"name": "Read", "input_schema": {}}, {"type": "bash_20250124", "name": "bash"}],
        "messages": [{"role": "user", "content": [image]}],
    }
    assert refusal(json.dumps(request).encode(), MODEL) is None
    for body in (b"", b"[1]", b"\xff", b"[" * 100_000):
        assert refusal(body, MODEL) is not None


def test_a_session_has_limits(tmp_path: Path) -> None:
    with provider() as upstream:
        with proxied(tmp_path, upstream, turns=2) as (path, account):
            assert [ask(path)[0] for _ in range(3)] == [200, 200, 403]
            assert account.spent().calls == 2
            assert ask(path, target="/v1/messages/count_tokens")[0] == 403
        with proxied(tmp_path, upstream, usd=ONE.usd * 2) as (path, account):
            assert account.spent().calls == 2  # of the try before
            assert ask(path)[0] == 403
    assert len(upstream.billed) == 2


@pytest.mark.parametrize("limits", [{"turns": 3}, {"usd": ONE.usd * 2.5}])
def test_requests_at_the_same_time_pass_no_limit(limits: Any, tmp_path: Path) -> None:
    with provider() as upstream:
        upstream.pause.clear()
        with (
            proxied(tmp_path, upstream, **limits) as (path, account),
            ThreadPoolExecutor(8) as pool,
        ):
            replies = [pool.submit(ask, path, {**HELLO, "stream": True}) for _ in range(8)]
            time.sleep(0.3)
            upstream.pause.set()
            assert sorted(reply.result()[0] for reply in replies) == [200] * 3 + [403] * 5
            assert account.spent().calls == account.calls == 3
        assert len(upstream.billed) == 3


def test_a_call_that_the_provider_refuses_is_given_back(tmp_path: Path) -> None:
    with provider() as upstream, proxied(tmp_path, upstream, turns=2) as (path, account):
        for status, answers in ((429, [429] * 3), (200, [200, 200, 403])):
            upstream.status = status
            assert [ask(path)[0] for _ in range(3)] == answers
        assert account.calls == 2


def test_few_calls_are_under_way_at_a_time_and_those_who_wait_are_sent_home(
    tmp_path: Path,
) -> None:
    with provider() as upstream, ThreadPoolExecutor(8) as pool:
        upstream.pause.clear()
        with proxied(tmp_path, upstream, usd=math.inf) as (path, _):
            replies = [pool.submit(ask, path, {**HELLO, "stream": True}) for _ in range(6)]
            limit = time.monotonic() + 20
            while len(upstream.billed) < PLACES and time.monotonic() < limit:
                time.sleep(0.01)
            time.sleep(0.2)
            assert len(upstream.billed) == PLACES
            threading.Timer(0.3, upstream.pause.set).start()  # when the proxy is stopping
        assert sorted(reply.result()[0] for reply in replies) == [200] * PLACES + [403] * 2
        assert len(upstream.billed) == PLACES


def test_tokens_are_counted_without_being_paid(tmp_path: Path) -> None:
    with provider() as upstream, proxied(tmp_path, upstream) as (path, account):
        assert ask(path, target="/v1/messages/count_tokens")[:2] == (200, '{"input_tokens": 7}')
        assert account.spent() == Spent()


def test_errors_come_through_without_the_key(tmp_path: Path) -> None:
    with provider() as upstream, proxied(tmp_path, upstream) as (path, account):
        upstream.status = 401
        status, text, headers = ask(path)
        assert status == 401 and "bad key ********" in text and KEY not in text + headers
        assert account.spent() == Spent()
        upstream.status = 200
        assert ask(path)[0] == 200
    assert account.calls == 1  # the one that was refused is given back
    assert KEY not in (tmp_path / "calls.jsonl").read_text()


def test_an_unreachable_provider(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    gone = Provider(f"http://127.0.0.1:{port}")
    with proxied(tmp_path, gone) as (path, _):
        assert ask(path)[:2] == (
            502,
            '{"type": "error", "error": {"type": "api_error", "message": '
            '"proxy: the provider was not reached: ConnectionRefusedError"}}',
        )


def test_what_cannot_be_sent_is_answered(tmp_path: Path) -> None:
    with provider() as upstream:
        account = Account.open(tmp_path / "calls.jsonl", PRICES)
        proxy = Proxy(tmp_path / "s", Allowance(upstream.url, "sk\n", MODEL, 9, 1.0), account)
        proxy.start()
        try:
            status, text, _ = ask(tmp_path / "s")
        finally:
            proxy.stop()
    assert status == 502 and "was not reached: ValueError" in text


def test_a_reply_that_nobody_waits_for_is_counted_whole(tmp_path: Path) -> None:
    with provider() as upstream:
        upstream.pause.clear()
        with proxied(tmp_path, upstream) as (path, account):
            connection = UnixConnection(path)
            connection.request("POST", "/v1/messages", json.dumps({**HELLO, "stream": True}))
            reply = connection.getresponse()
            reply.read1(100)
            assert account.spent().sampled_tokens == 1  # what is known so far, on disk already
            connection.close()
            threading.Timer(0.3, upstream.pause.set).start()
        assert account.spent() == ONE
    assert Account.open(tmp_path / "calls.jsonl", PRICES).spent() == ONE


def test_what_a_call_costs() -> None:
    usd = (100 * 5 + 40 * 6.25 + 60 * 0.5 + 20 * 25) / 1e6
    assert Spent(1, 200, 60, 20, pytest.approx(usd)) == ONE


def test_an_account_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text(json.dumps({"call": 0, "usage": USAGE}) + '\n{"call": 1, "usa')
    account = Account.open(path, PRICES)
    assert account.spent() == ONE
    assert account.begin() == 1


@pytest.mark.parametrize("cut", range(1, 20))
def test_the_key_is_found_across_parts(cut: int) -> None:
    text = f"a {KEY[:4]} {KEY}, {KEY}".encode()
    scrubber = Scrubber(KEY.encode())
    parts = [text[i : i + cut] for i in range(0, len(text), cut)]
    out = b"".join([*map(scrubber.feed, parts), scrubber.end()])
    assert out == f"a {KEY[:4]} ********, ********".encode()


def test_usage_is_read_from_any_cut_of_a_stream() -> None:
    events = [
        {"type": "message_start", "message": {"usage": {**USAGE, "output_tokens": 2}}},
        {"type": "ping"},
        {"type": "message_delta", "usage": {"output_tokens": 20}},
        {"type": "message_delta", "usage": {"output_tokens": None}},
    ]
    text = "".join(f"event: x\r\ndata: {json.dumps(e)}\r\n\r\n" for e in events).encode()
    for size in (1, 7, 1000):
        reader = UsageReader(streamed=True)
        for start in range(0, len(text), size):
            reader.feed(text[start : start + size])
        assert reader.counts == USAGE
    reader = UsageReader(streamed=False)
    reader.feed(b"no json")
    reader.end()
    assert reader.counts == {}

"""A real HTTP server on this machine that speaks Chat Completions, keeps its own accounts, and has
planned faults.

It knows one key and one model. A token is a word: the prompt's are those of all contents, a
reply's those of its text.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from attrs import define, field, frozen

KEY = "sk-test-4f1c9d20aa"
MODEL = "toy-model"
SERVED = "toy-model-2026-11-01"

Body = Mapping[str, Any]


@frozen
class Answer:
    """What the server does with one request: a status and a body (text is sent as it is), after
    ``seconds``. With ``hang_up`` it closes the connection instead."""

    body: Any = None
    status: int = 200
    seconds: float = 0.0
    headers: Mapping[str, str] = field(factory=dict)
    hang_up: bool = False


Plan = Callable[[int, Body], Answer | None]


def words(text: str) -> int:
    return len(text.split())


def toy_reply(body: Body) -> str:
    """Some listed letter, a function of the request's seed and conversation."""
    last = str(body["messages"][-1]["content"])
    letters = last.split("Letters: ")[-1][:6] or "x"
    seed = f"{body.get('seed')} {json.dumps(body['messages'])}"
    return letters[hashlib.sha256(seed.encode()).digest()[0] % len(letters)]


def completion(body: Body, text: str | None, **more: Any) -> dict[str, Any]:
    """Return a complete answer with ``text``; ``more`` replaces top-level fields."""
    prompt = sum(words(str(message["content"])) for message in body["messages"])
    sampled = words(text or "") + 1  # and the end
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": SERVED,
        "system_fingerprint": f"fp_{time.monotonic_ns()}",  # not stable, as with real ones
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": sampled,
            "total_tokens": prompt + sampled,
            "prompt_tokens_details": {"cached_tokens": prompt // 2},
        },
        **more,
    }


def error(message: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code}}


@define
class Endpoint:
    """A running server. ``plan(number, body)`` may answer the ``number``-th request (from 0)."""

    plan: Plan = field(default=lambda number, body: None)
    bodies: list[Body] = field(factory=list)
    keys: list[str] = field(factory=list)
    usages: list[Mapping[str, Any]] = field(factory=list)  # of every answer with counts
    busiest: int = 0
    _busy: int = 0
    _lock: threading.Lock = field(factory=threading.Lock)
    _server: ThreadingHTTPServer = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def total(self, name: str) -> int:
        return sum(usage[name] for usage in self.usages)

    @property
    def cached(self) -> int:
        return sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in self.usages)

    def usd(self, prices: tuple[float, float, float]) -> float:
        """Return what all answers cost at prices per million: input, cached, output."""
        fresh = self.total("prompt_tokens") - self.cached
        sampled = self.total("completion_tokens")
        return (fresh * prices[0] + self.cached * prices[1] + sampled * prices[2]) / 1e6

    def answer(self, path: str, key: str, body: Body) -> Answer:
        with self._lock:
            number = len(self.bodies)
            self.bodies.append(body)
            self.keys.append(key)
            self._busy += 1
            self.busiest = max(self.busiest, self._busy)
        try:
            made = self.plan(number, body) or self._usual(path, key, body)
            time.sleep(made.seconds)
        finally:
            with self._lock:
                self._busy -= 1
        usage = made.body.get("usage") if isinstance(made.body, dict) else None
        if made.status == 200 and usage:
            with self._lock:
                self.usages.append(usage)
        return made

    def _usual(self, path: str, key: str, body: Body) -> Answer:
        if path != "/v1/chat/completions":
            return Answer(error(f"no route {path}"), 404)
        if key != f"Bearer {KEY}":
            return Answer(error(f"Incorrect API key provided: {key}", "invalid_api_key"), 401)
        if body["model"] != MODEL:
            return Answer(error(f"The model `{body['model']}` does not exist"), 404)
        return Answer(completion(body, toy_reply(body)))


def _handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            made = endpoint.answer(self.path, self.headers["Authorization"], body)
            if made.hang_up:
                self.close_connection = True
                return
            text = made.body if isinstance(made.body, str) else json.dumps(made.body)
            data = text.encode()
            try:
                self.send_response(made.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in made.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
            except OSError:  # the client waits no longer
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler

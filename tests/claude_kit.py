"""A local provider that speaks the Messages protocol, and stand-ins for the program ``claude``."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from attrs import define, field

from whale_metaharness.proposers.anthropic import Usage
from whale_metaharness.proposers.settings import CachePrices

KEY = "sk-test-9f8e7d6c5b4a"
MODEL = "claude-opus-4-7"
USAGE = {
    "input_tokens": 100,
    "cache_creation_input_tokens": 40,
    "cache_read_input_tokens": 60,
    "output_tokens": 20,
}
PRICES = CachePrices(input=5, output=25, cached=0.5, cache_write=6.25)
ONE = Usage(*USAGE.values()).spent(PRICES)  # what one call costs
Content = list[dict[str, Any]]


def says(text: str) -> Content:
    """Return the content of a reply in words."""
    return [{"type": "text", "text": text}]


@define
class Provider:
    """What the local provider was asked and what it answers: ``script(request, number)``."""

    url: str
    script: Callable[[Mapping[str, Any], int], Content] = lambda request, number: says("done")
    requests: list[tuple[str, dict[str, str], Any]] = field(factory=list)
    billed: list[dict[str, int]] = field(factory=list)
    status: int = 200
    pause: threading.Event = field(factory=threading.Event)  # streams wait for it before their end


@contextmanager
def provider(script: Any = None) -> Iterator[Provider]:
    """Serve the Messages protocol on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = json.loads(body)
            made.requests.append((self.path, headers, request))
            if self.path.startswith("/v1/messages/count_tokens"):
                return self._send({"input_tokens": 7})
            if made.status != 200:
                # as careless providers do, with the key that was wrong
                message = f"bad key {headers.get('x-api-key')}"
                return self._send({"type": "error", "error": {"message": message}}, made.status)
            content = made.script(request, len(made.billed))
            made.billed.append(dict(USAGE))
            uses = any(block["type"] == "tool_use" for block in content)
            message = {
                "id": f"msg_{len(made.billed)}",
                "type": "message",
                "role": "assistant",
                "model": request["model"],
                "content": content,
                "stop_reason": "tool_use" if uses else "end_turn",
                "stop_sequence": None,
                "usage": USAGE,
            }
            if request.get("stream"):
                return self._stream(message)
            return self._send(message)

        def _send(self, value: Any, status: int = 200) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("x-secret", self.headers.get("x-api-key", ""))
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, message: dict[str, Any]) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            start = {**message, "content": [], "stop_reason": None}
            start["usage"] = {**USAGE, "output_tokens": 1}
            self._event("message_start", message=start)
            for index, block in enumerate(message["content"]):
                if block["type"] == "text":
                    empty, delta = (
                        {**block, "text": ""},
                        {"type": "text_delta", "text": block["text"]},
                    )
                else:
                    partial = json.dumps(block["input"])
                    empty = {**block, "input": {}}
                    delta = {"type": "input_json_delta", "partial_json": partial}
                self._event("content_block_start", index=index, content_block=empty)
                self._event("content_block_delta", index=index, delta=delta)
                self._event("content_block_stop", index=index)
            made.pause.wait(20)
            told = {"stop_reason": message["stop_reason"], "stop_sequence": None}
            self._event(
                "message_delta", delta=told, usage={"output_tokens": USAGE["output_tokens"]}
            )
            self._event("message_stop")

        def _event(self, kind: str, **data: Any) -> None:
            line = json.dumps({"type": kind, **data})
            self.wfile.write(f"event: {kind}\ndata: {line}\n\n".encode())
            self.wfile.flush()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Provider(f"http://127.0.0.1:{server.server_address[1]}")
    if script is not None:
        made.script = script
    made.pause.set()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield made
    finally:
        made.pause.set()
        server.shutdown()
        thread.join()
        server.server_close()


PRELUDE = '''\
import json, os, socket, subprocess, sys, time
from http.client import HTTPConnection
from pathlib import Path

HOST, PORT = os.environ["ANTHROPIC_BASE_URL"].removeprefix("http://").split(":")

def ask(method="POST", path="/v1/messages?beta=true", body=None, **headers):
    """Send a request to the proxy and return the reply's status and text."""
    connection = HTTPConnection(HOST, int(PORT), timeout=20)
    usual = {{"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"}}
    model = os.environ["ANTHROPIC_MODEL"]
    body = {{"model": model, "max_tokens": 9, "messages": []}} if body is None else body
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, data, {{**usual, **headers}})
    reply = connection.getresponse()
    return reply.status, str(reply.headers) + reply.read().decode()

def say(**event):
    print(json.dumps(event), flush=True)

def propose(slot, source, **about):
    folder = Path("outbox") / slot
    folder.mkdir(parents=True)
    (folder / "harness.py").write_text(source)
    (folder / "metadata.json").write_text(json.dumps(about))

'''


def stand_in(folder: Path, body: str) -> str:
    """Write a program called ``claude`` into ``folder`` and return its path; ``body`` may use the
    helpers of ``PRELUDE``."""
    interpreter = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "claude"
    path.write_text(f"#!{interpreter} -IS\n{PRELUDE.format()}{body}")
    path.chmod(0o755)
    return str(path)


def listening() -> socket.socket:
    """Return a socket that listens on this machine: a host that the agent must not reach."""
    return socket.create_server(("127.0.0.1", 0))

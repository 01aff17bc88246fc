"""A real HTTP server on this machine that speaks the Messages API and Chat Completions, both in one
piece and as a stream, keeps its own accounts, and plays a scripted model with planned faults.

It knows one key and one model. A token is a word, except that a request's beginning that an earlier
one had is counted as read from the cache (and what is new as written to it, where the Messages API
is asked to). What it counted for an answer that broke off is what it had told by then.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from attrs import define, field, frozen

from whale_core.records import Spent

KEY = "sk-test-77aa01proposer"
MODEL = "toy-proposer"
PRICES = {"input": 3.0, "output": 15.0, "cached": 0.3, "cache_write": 3.75}  # per million

Body = Mapping[str, Any]


@frozen
class Said:
    """One turn of the scripted model: a text, calls as (tool, arguments), and how it is sent.

    Arguments may be a text, which is sent as it is. ``cut`` sends so many pieces of the stream and
    closes the connection. ``usage`` replaces counts.
    """

    text: str = ""
    calls: Sequence[tuple[Any, Any]] = ()
    stop: str = ""  # length | refusal | end; else what the calls make it
    seconds: float = 0.0
    cut: int | None = None
    usage: Mapping[str, int] = field(factory=dict)


@frozen
class Fault:
    """An answer that is none: a status and a body, a connection that is closed, silence."""

    status: int = 500
    body: Any = None
    headers: Mapping[str, str] = field(factory=dict)
    hang_up: bool = False
    seconds: float = 0.0


@frozen
class Ask:
    """A request as the script sees it: the ``number``-th (from 0), in an iteration, when the model
    has spoken ``turn`` times; ``again`` counts earlier requests with the same body. ``told`` is
    what the model was told last."""

    number: int
    iteration: int
    turn: int
    again: int
    told: str
    body: Body


Script = Callable[[Ask], Said | Fault]


@define
class ModelServer:
    """A running server."""

    script: Script
    bodies: list[Body] = field(factory=list)
    spent: list[Spent] = field(factory=list)  # of every answer with counts
    open: int = 0
    _lock: threading.Lock = field(factory=threading.Lock)
    _server: ThreadingHTTPServer = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def total(self) -> Spent:
        return sum(self.spent, Spent())

    def ask(self, body: Body) -> Ask:
        with self._lock:
            again = sum(earlier == body for earlier in self.bodies)
            number = len(self.bodies)
            self.bodies.append(body)
        texts = [said_in(message) for message in body["messages"] if message["role"] != "system"]
        found = re.search(r"iteration (\d+)", texts[0])
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        iteration = int(found[1]) if found else 0  # 0: the probe
        return Ask(number, iteration, turn, again, texts[-1], body)

    def count(self, body: Body, said: Said) -> dict[str, int]:
        """Return the counts of one answer."""
        prompt = words(body)
        with self._lock:
            earlier = [b for b in self.bodies if b is not body and begins(b, body)]
        cached = max((words(b) for b in earlier), default=0)
        sampled = 1 + len(said.text.split()) + sum(len(str(call).split()) for call in said.calls)
        return {"prompt": prompt, "cached": min(cached, prompt), "sampled": sampled, **said.usage}

    def book(self, usage: Mapping[str, int], written: int = 0) -> None:
        usd = (
            (usage["prompt"] - usage["cached"]) * PRICES["input"]
            + usage["cached"] * PRICES["cached"]
            + usage["sampled"] * PRICES["output"]
            + written * (PRICES["cache_write"] - PRICES["input"])
        ) / 1e6
        with self._lock:
            made = Spent(1, usage["prompt"], usage["cached"], usage["sampled"], usd)
            self.spent.append(made)


def said_in(message: Body) -> str:
    """Return all texts of a message, tool results included."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", block.get("content", ""))) for block in content)


def words(body: Body) -> int:
    return len(json.dumps([body.get("system"), body["messages"]]).split())


def begins(short: Body, long: Body) -> bool:
    """Say whether a request is the beginning of another one, marks of the cache aside."""
    if short.get("system") != long.get("system"):
        return False
    ours, theirs = (json.dumps(unmarked(each["messages"])) for each in (short, long))
    return theirs.startswith(ours[:-1])


def unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: unmarked(each) for key, each in value.items() if key != "cache_control"}
    return [unmarked(each) for each in value] if isinstance(value, list) else value


# --- the two protocols: one answer, and the same in pieces ----------------------------------------


def message(server: ModelServer, body: Body, said: Said) -> tuple[dict[str, Any], dict[str, int]]:
    """Return a message of the Messages API, and its counts as the server books them."""
    counts = server.count(body, said)
    fresh = counts["prompt"] - counts["cached"]
    marked = "cache_control" in json.dumps(body["messages"][-1])
    written = max(fresh - 3, 0) if marked else 0
    blocks: list[dict[str, Any]] = [{"type": "text", "text": said.text}] if said.text else []
    blocks += [
        {"type": "tool_use", "id": f"toolu_{i}", "name": name, "input": arguments}
        for i, (name, arguments) in enumerate(said.calls)
    ]
    stops = {"length": "max_tokens", "refusal": "refusal", "end": "end_turn"}
    stop = stops.get(said.stop, "tool_use" if said.calls else "end_turn")
    usage = {
        "input_tokens": fresh - written,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": counts["cached"],
        "output_tokens": counts["sampled"],
    }
    whole = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": blocks,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }
    return whole, {**counts, "written": written}


def message_events(whole: Body) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a message in pieces, as (event, data)."""
    start = {**whole, "content": [], "stop_reason": None}
    start["usage"] = {**whole["usage"], "output_tokens": 1}
    yield "message_start", {"type": "message_start", "message": start}
    yield "ping", {"type": "ping"}
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty = {"type": "text", "text": ""}
            halves = halved(block["text"])
            deltas = [{"type": "text_delta", "text": half} for half in halves]
        else:
            empty = {**block, "input": {}}
            told = block["input"]
            halves = halved(told if isinstance(told, str) else json.dumps(told))
            deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves]
        at = {"index": index}
        yield (
            "content_block_start",
            {"type": "content_block_start", **at, "content_block": empty},
        )
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", **at, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", **at}
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": whole["usage"]["output_tokens"]}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": usage}
    yield "message_stop", {"type": "message_stop"}


def completion(server: ModelServer, body: Body, said: Said) -> tuple[dict[str, Any], Any]:
    """Return a chat completion, and its counts as the server books them."""
    counts = server.count(body, said)
    calls = [
        {
            "id": f"call_{i}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": told if isinstance(told, str) else json.dumps(told),
            },
        }
        for i, (name, told) in enumerate(said.calls)
    ]
    stops = {"length": "length", "refusal": "content_filter", "end": "stop"}
    stop = stops.get(said.stop, "tool_calls" if calls else "stop")
    told: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if calls:
        told["tool_calls"] = calls
    whole = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, "message": told, "finish_reason": stop}],
        "usage": {
            "prompt_tokens": counts["prompt"],
            "completion_tokens": counts["sampled"],
            "total_tokens": counts["prompt"] + counts["sampled"],
            "prompt_tokens_details": {"cached_tokens": counts["cached"]},
        },
    }
    return whole, counts


def completion_events(whole: Body) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a completion in pieces; the counts come last."""
    choice = whole["choices"][0]
    head = {"id": whole["id"], "object": "chat.completion.chunk", "created": 1, "model": MODEL}

    def chunk(delta: Any, finish: Any = None) -> tuple[str, dict[str, Any]]:
        made = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return "", {**head, "choices": made, "usage": None}

    yield chunk({"role": "assistant", "content": ""})
    for half in halved(choice["message"]["content"] or ""):
        yield chunk({"content": half})
    for index, call in enumerate(choice["message"].get("tool_calls", [])):
        first, second = halved(call["function"]["arguments"])
        named = {"name": call["function"]["name"], "arguments": first}
        whole_call = {"index": index, "id": call["id"], "type": "function", "function": named}
        yield chunk({"tool_calls": [whole_call]})
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": second}}]})
    yield chunk({}, choice["finish_reason"])
    yield "", {**head, "choices": [], "usage": whole["usage"]}


def halved(text: str) -> list[str]:
    return [text[: len(text) // 2], text[len(text) // 2 :]]


# --- http -----------------------------------------------------------------------------------------


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            messages = self.path == "/v1/messages"
            if not messages and self.path != "/v1/chat/completions":
                return self._fault(Fault(404, self._error(f"no route {self.path}")))
            key = self.headers["Authorization"] or self.headers["x-api-key"] or ""
            if key.removeprefix("Bearer ") != KEY:
                return self._fault(Fault(401, self._error(f"invalid key {key}")))
            if body["model"] != MODEL:
                return self._fault(Fault(404, self._error(f"no model {body['model']}")))
            made = server.script(server.ask(body))
            try:
                if isinstance(made, Fault):
                    time.sleep(made.seconds)
                    return self._fault(made)
                return self._say(messages, body, made)
            except OSError:  # the client waits no longer
                self.close_connection = True

        def _say(self, messages: bool, body: Body, said: Said) -> None:
            whole, counts = (message if messages else completion)(server, body, said)
            if not body.get("stream"):
                time.sleep(said.seconds)
                server.book(counts, counts.get("written", 0))
                return self._send(200, whole)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            events = list((message_events if messages else completion_events)(whole))
            told = False
            for index, (event, data) in enumerate(events):
                if index == said.cut:
                    break
                if index == 1:
                    time.sleep(said.seconds)
                if event:
                    self.wfile.write(f"event: {event}\n".encode())
                self.wfile.write(f"data: {json.dumps(data)}\n\n".encode())
                self.wfile.flush()
                told = told or bool(messages or data.get("usage"))
            else:
                if not messages:
                    self.wfile.write(b"data: [DONE]\n\n")
            if said.cut is not None and messages:
                counts = {**counts, "sampled": 1}  # all that it had told of them
            if told:
                server.book(counts, counts.get("written", 0))
            if said.cut is not None:
                self._close()

        def _fault(self, fault: Fault) -> None:
            if fault.hang_up:
                return self._close()
            self._send(fault.status, fault.body or self._error("on purpose"), fault.headers)

        def _error(self, text: str) -> Any:
            return {"type": "error", "error": {"type": "some_error", "message": text}}

        def _send(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def _close(self) -> None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler

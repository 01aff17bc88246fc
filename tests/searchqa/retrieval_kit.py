"""Corpora, a server with planned faults and an encoder without a model, for the retrieval tests."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field, frozen

TOWNS = ("Arlen", "Borgo", "Celin", "Dorvik", "Eskil", "Fenwick", "Galdo", "Hesper")
TRADES = ("painter", "sailor", "physicist", "cartographer", "composer")


def rows(count: int) -> list[dict[str, str]]:
    """Return ``count`` passages; that of ``Person 7`` alone holds the word ``mark7``."""
    return [
        {
            "id": f"p{each}",
            "contents": f'"Person {each}"\nPerson {each} was a {TRADES[each % 5]} from '
            f"{TOWNS[each % 8]}, known for mark{each}.",
        }
        for each in range(count)
    ]


def write_corpus(path: Path, corpus: Sequence[Any]) -> Path:
    """Write rows as JSON lines; text is written as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in corpus]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@define
class WordEncoder:
    """Stands in for ``Encoder``: a text's vector counts its words in buckets. ``encoded`` counts
    passages; ``before`` is called with their number before each batch."""

    dimension: int = 32
    encoded: int = 0
    before: Callable[[int], None] = lambda encoded: None

    def facts(self) -> dict[str, Any]:
        return {"encoder": "words", "weights": "none", "dimension": self.dimension}

    def passages(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        self.before(self.encoded)
        self.encoded += len(texts)
        return self.queries(texts)

    def queries(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        made = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                made[row, hashlib.sha256(word.encode()).digest()[0] % self.dimension] += 1
        return made / np.linalg.norm(made, axis=1, keepdims=True)


@frozen
class Answer:
    """What the server does with one request: status and body (text as it is), after ``seconds``."""

    body: Any
    status: int = 200
    seconds: float = 0.0


Plan = Callable[[int, dict[str, Any]], Answer]


@define
class Server:
    """A running server; ``plan(number, body)`` answers the ``number``-th request, from 0."""

    plan: Plan
    bodies: list[dict[str, Any]] = field(factory=list)
    url: str = ""


@contextmanager
def served(plan: Plan) -> Iterator[Server]:
    """Run a server on this machine that answers as planned."""
    server = Server(plan)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.bodies.append(body)
            answer = server.plan(len(server.bodies) - 1, body)
            time.sleep(answer.seconds)
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            try:
                self.send_response(answer.status)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())
            except OSError:
                pass  # the client went away: that is what the test is about

        def log_message(self, *arguments: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_address[1]}/retrieve"
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def document(number: int) -> dict[str, str]:
    return {"id": f"d{number}", "contents": f'"Title {number}"\ntext {number}'}


def honest(number: int, body: dict[str, Any]) -> Answer:
    """Answer as the protocol says: documents 0, 1, … for every query."""
    found = [document(each) for each in range(body["topk"])]
    if body["return_scores"]:
        items = [{"document": each, "score": 1.0 / (1 + at)} for at, each in enumerate(found)]
        return Answer({"result": [items for _ in body["queries"]]})
    return Answer({"result": [found for _ in body["queries"]]})

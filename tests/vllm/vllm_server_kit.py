"""A real HTTP server on this machine that speaks the endpoints of vLLM the engine uses.

Its policy is a small one: the logits of the next token are the last token's embedding against all
others' (turned by a place), read from the served folder. So weights and seeds matter, and the tests
can compute log-probabilities. ``plan`` makes it go wrong on purpose; run as a program it takes the
arguments of ``vllm serve``.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field, frozen

from whale_core.checkpoint import checkpoint_hash, parameters
from whale_core.keys import content_hash, generator

BLOCK = 16  # tokens of a block of the prefix cache
EMBEDDINGS = "model.embed_tokens.weight"


@frozen
class Answer:
    """What the server does with one request instead of what it should."""

    body: Any = None  # text is sent as it is
    status: int = 200
    seconds: float = 0.0
    hang_up: bool = False


Plan = Callable[[str, Mapping[str, Any]], Answer | None]


def embeddings(folder: Path) -> np.ndarray:
    tensor = parameters(folder)[EMBEDDINGS]
    data = np.fromfile(tensor.file, "<f4", int(np.prod(tensor.shape)), offset=tensor.start)
    return data.reshape(tensor.shape)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max()
    return shifted - np.log(np.exp(shifted).sum())


def raw_logprobs(table: np.ndarray, last: int) -> np.ndarray:
    """Return the log-probabilities of all tokens after ``last``."""
    return log_softmax(np.roll(table, 1, axis=1) @ table[last] / 4.0)


@define
class Server:
    """A running server. ``tokenize`` is the model's own tokenizer; ``mode`` the logprobs mode."""

    folder: Path
    tokenize: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]
    mode: str = "raw_logprobs"
    max_model_len: int = 512
    port: int = 0
    version: str = "0"
    plan: Plan = field(default=lambda path, body: None)
    dtype: str = "torch.float32"
    started_with: Path | None = None  # another folder than the one whose weights it has
    sleeps: bool = False  # was started with --enable-sleep-mode
    asleep: bool = False
    deaf: bool = False  # says that it loaded weights, and does not
    bodies: list[Mapping[str, Any]] = field(factory=list)  # of completions
    calls: list[str] = field(factory=list)  # paths, in order
    queries: list[str] = field(factory=list)  # of each
    paused: bool = False
    serving: str = field(init=False)
    _table: np.ndarray = field(init=False)
    _cached: set[str] = field(factory=set)
    _lock: threading.Lock = field(factory=threading.Lock)
    _http: ThreadingHTTPServer = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._load(self.folder)
        self._http = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def scores(self, ids: list[int]) -> list[float]:
        """Return the log-probability of each token but the first."""
        return [float(raw_logprobs(self._table, a)[b]) for a, b in pairwise(ids)]

    def answer(self, path: str, body: Mapping[str, Any], query: str = "") -> Answer:
        with self._lock:
            self.calls.append(path)
            self.queries.append(query)
            if path == "/v1/completions":
                self.bodies.append(body)
        planned = self.plan(path, body)
        if planned is not None:
            time.sleep(planned.seconds)
            if planned.body is not None or planned.status != 200 or planned.hang_up:
                return planned
        route = getattr(self, "_" + path.strip("/").replace("/", "_"), None)
        return route(body) if route else Answer({"detail": "Not Found"}, 404)

    def _health(self, body: Mapping[str, Any]) -> Answer:
        return Answer("")

    def _version(self, body: Mapping[str, Any]) -> Answer:
        return Answer({"version": "0.32.0+toy"})

    def _v1_models(self, body: Mapping[str, Any]) -> Answer:
        return Answer({"data": [{"id": str(self.folder), "max_model_len": self.max_model_len}]})

    def _tokenize(self, body: Mapping[str, Any]) -> Answer:
        return Answer({"tokens": self.tokenize(body["prompt"])})

    def _weight_info(self, body: Mapping[str, Any]) -> Answer:
        return Answer({"weight_version": self.version})

    def _weight_checker(self, body: Mapping[str, Any]) -> Answer:
        return Answer({"checksums": {"embed": content_hash(self._table.tobytes())}})

    def _server_info(self, body: Mapping[str, Any]) -> Answer:
        told = {"model": str(self.started_with or self.folder), "dtype": self.dtype}
        config = {**told, "enable_sleep_mode": self.sleeps}
        return Answer({"vllm_config": {"model_config": config}})

    def _sleep(self, body: Mapping[str, Any]) -> Answer:
        self.asleep = True
        self.serving, self._table = "nothing", np.zeros_like(self._table)  # level 2 keeps none
        self._cached.clear()
        return Answer({"status": "sleeping", "level": 2})

    def _wake_up(self, body: Mapping[str, Any]) -> Answer:
        self.asleep = False
        return Answer({"status": "awake", "tags": None})

    def _pause(self, body: Mapping[str, Any]) -> Answer:
        self.paused = True
        return Answer({"status": "paused"})

    def _resume(self, body: Mapping[str, Any]) -> Answer:
        self.paused = False
        return Answer({"status": "resumed"})

    def _collective_rpc(self, body: Mapping[str, Any]) -> Answer:
        if self.asleep or not self.paused or body["method"] != "reload_weights":
            return Answer({"error": {"message": "weights were changed under way"}}, 500)
        if not self.deaf:
            self._load(Path(body["kwargs"]["weights_path"]))
        return Answer({"results": [None]})

    def _reset_prefix_cache(self, body: Mapping[str, Any]) -> Answer:
        self._cached.clear()
        return Answer({"success": True})

    def _update_weight_version(self, body: Mapping[str, Any]) -> Answer:
        self.version = body["new_version"]
        return Answer({"success": True})

    def _v1_completions(self, body: Mapping[str, Any]) -> Answer:
        prompt = body["prompt"]
        if self.paused or self.asleep or len(prompt) + body["max_tokens"] > self.max_model_len:
            return Answer({"error": {"message": "it does not fit"}}, 400)
        ids, logprobs, why = self._sample(prompt, body)
        choice: dict[str, Any] = {
            "index": 0,
            "text": self.decode(ids),
            "finish_reason": why,
            "token_ids": ids,
            "prompt_token_ids": prompt,
            "logprobs": {"token_logprobs": logprobs},
        }
        if body.get("prompt_logprobs") is not None:
            scores = zip(prompt[1:], self.scores(prompt), strict=True)
            choice["prompt_logprobs"] = [None, *({str(i): {"logprob": p}} for i, p in scores)]
        usage = {"prompt_tokens_details": {"cached_tokens": self._reuse(prompt)}}
        return Answer({"choices": [choice], "usage": usage})

    def _sample(
        self, prompt: list[int], body: Mapping[str, Any]
    ) -> tuple[list[int], list[float], str]:
        noise = np.random.default_rng(body.get("seed") or 0)
        ids: list[int] = []
        logprobs: list[float] = []
        while len(ids) < body["max_tokens"]:
            raw = raw_logprobs(self._table, (prompt + ids)[-1])
            heat = body["temperature"]
            processed = log_softmax(raw / (heat or 1.0))
            if body.get("top_k"):
                processed[np.argsort(-processed)[body["top_k"] :]] = -np.inf
                processed -= np.log(np.exp(processed).sum())
            drawn = np.argmax(processed + (noise.gumbel(size=len(raw)) if heat else 0.0))
            ids.append(int(drawn))
            told = raw if self.mode == "raw_logprobs" else processed
            logprobs.append(float(told[drawn]))
            text = self.decode(ids)
            if ids[-1] in body.get("stop_token_ids", ()):
                return ids, logprobs, "stop"
            if any(stop in text for stop in body.get("stop", ())):
                return ids, logprobs, "stop"
        return ids, logprobs, "length"

    def _reuse(self, prompt: list[int]) -> int:
        """Return how much of the prompt was asked before, in blocks, and remember it."""
        ends = range(BLOCK, len(prompt), BLOCK)
        blocks = [content_hash(json.dumps(prompt[:end])) for end in ends]
        reused = sum(block in self._cached for block in blocks)
        self._cached.update(blocks)
        return reused * BLOCK

    def _load(self, folder: Path) -> None:
        self._table = embeddings(folder)
        self.serving = checkpoint_hash(folder)


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply({})

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self._reply(json.loads(self.rfile.read(length) or b"{}"))

        def _reply(self, body: Mapping[str, Any]) -> None:
            path, _, query = self.path.partition("?")
            made = server.answer(path, body, query)
            if made.hang_up:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            data = (made.body if isinstance(made.body, str) else json.dumps(made.body)).encode()
            try:
                self.send_response(made.status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True

        def log_message(self, *arguments: Any) -> None:
            pass

    return Handler


def bytes_server(folder: Path, **settings: Any) -> Server:
    """Return a server of the tiny model, whose tokens are bytes behind three special ones."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return Server(
        folder,
        lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        lambda ids: tokenizer.decode(ids, skip_special_tokens=True),
        **settings,
    )


def write_changed(folder: Path, target: Path, name: str) -> Path:
    """Write the model of ``folder`` with other embeddings to ``target`` and return it."""
    target.mkdir()
    for file in folder.iterdir():
        data = bytearray(file.read_bytes())
        if file.suffix == ".safetensors":
            tensor = parameters(folder)[EMBEDDINGS]
            fresh = generator("changed", name).standard_normal(tensor.shape).astype("<f4")
            data[tensor.start : tensor.end] = fresh.tobytes()
        (target / file.name).write_bytes(data)
    return target


def main() -> None:
    """Serve as ``vllm serve FOLDER …`` does, until the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int)
    parser.add_argument("--logprobs-mode")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--fail", action="store_true")
    parser.add_argument("--enable-sleep-mode", action="store_true")
    known, _ = parser.parse_known_args()
    if known.enable_sleep_mode:  # as on a CPU
        print("ModelConfig", "  Value error, Sleep mode is not supported on current platform.")
        sys.exit(1)
    if known.fail:
        print("loading the model", "ValueError: no such device", sep="\n")
        sys.exit(7)
    bytes_server(
        known.folder, port=known.port, mode=known.logprobs_mode, max_model_len=known.max_model_len
    )
    threading.Event().wait()


if __name__ == "__main__":
    main()

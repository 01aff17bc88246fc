"""A server of the ``/retrieve`` protocol over any retriever of this package.

``POST /retrieve`` takes ``{"queries": […], "topk": k, "return_scores": bool}`` and answers
``{"result": [[…], …]}``, one list per query; ``GET /health`` says what is served. Requests are
answered one by one, so an answer depends on its request alone; documents are made anew for each.
The published client also sends ``max_doc_tokens``, after which each text ends, and
``tokenizer_name``: no tokenizer is loaded here, words and punctuation marks are counted.
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from whale_core.errors import InputError
from whale_searchqa.environment import truncated
from whale_searchqa.retrieval.passages import halves
from whale_searchqa.retrieval.retriever import Hit, Retriever

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse

MAX_BODY = 1 << 20  # bytes
MAX_QUERIES = 1024
MAX_TOPK = 100
TOPK = 3  # where a request does not say, as the public server's default
BACKLOG = 1024  # connections that wait to be accepted
FIELDS = ("queries", "topk", "return_scores", "max_doc_tokens", "tokenizer_name")


@frozen
class Asked:
    """A request; ``tokens`` is the length of a text at most, None for whole ones."""

    queries: list[str]
    topk: int
    scores: bool
    tokens: int | None


class BadRequest(Exception):
    """What is wrong with a request, and the status to answer with."""

    def __init__(self, problem: str, status: int = 400) -> None:
        super().__init__(problem)
        self.status = status


def application(retriever: Retriever) -> Starlette:
    """Return the ASGI application that serves ``retriever``; needs the extra ``serve``."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def retrieve(request: Request) -> JSONResponse:
        try:
            asked = read_request(await _body(request))
        except BadRequest as error:
            return JSONResponse({"error": str(error)}, error.status)
        found = await retriever.search(asked.queries, asked.topk)
        return JSONResponse({"result": [[_item(hit, asked) for hit in hits] for hits in found]})

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", **retriever.facts()})

    return Starlette(
        routes=[
            Route("/retrieve", retrieve, methods=["POST"]),
            Route("/health", health, methods=["GET"]),
        ]
    )


def read_request(body: bytes) -> Asked:
    """Return what is asked for, or raise ``BadRequest``."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest("the body is not JSON") from error
    if not isinstance(asked, dict) or not isinstance(asked.get("queries"), list):
        raise BadRequest('the body must be {"queries": ["…"], "topk": 3, "return_scores": true}')
    if unknown := [key for key in asked if key not in FIELDS]:
        raise BadRequest(f"unknown field {unknown[0]!r}; there are: {', '.join(FIELDS)}")
    queries = asked["queries"]
    if len(queries) > MAX_QUERIES:
        raise BadRequest(f"queries: {len(queries)}, at most {MAX_QUERIES} are taken", 413)
    if not all(isinstance(each, str) and not halves(each) for each in queries):
        raise BadRequest("queries: each must be text")
    topk = TOPK if asked.get("topk") is None else asked["topk"]
    if isinstance(topk, bool) or not isinstance(topk, int) or not 1 <= topk <= MAX_TOPK:
        raise BadRequest(f"topk: must be a whole number from 1 to {MAX_TOPK}")
    scores = asked.get("return_scores", False)
    if not isinstance(scores, bool):
        raise BadRequest("return_scores: must be true or false")
    tokens = asked.get("max_doc_tokens")
    if tokens is not None and (type(tokens) is not int or tokens < 1):
        raise BadRequest("max_doc_tokens: must be a whole number from 1 on")
    return Asked(queries, topk, scores, tokens)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens already, so that its address can be told: who connects before
    the server runs waits for it. Raise ``InputError`` where none can be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        made.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"cannot listen on {host}:{port}: {reason}; choose another --port"
        ) from error
    return made


def serve(retriever: Retriever, bound: socket.socket) -> None:
    """Serve until interrupted."""
    import uvicorn

    config = uvicorn.Config(application(retriever), log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[bound])


async def _body(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY:
            raise BadRequest(f"the body has more than {MAX_BODY} bytes", 413)
    return bytes(data)


def _item(hit: Hit, asked: Asked) -> dict[str, Any]:
    passage = hit.passage
    if asked.tokens is not None:
        passage = evolve(passage, text=truncated(passage.text, asked.tokens))
    document = passage.document()
    return {"document": document, "score": hit.score} if asked.scores else document

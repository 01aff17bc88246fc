"""A client of the ``/retrieve`` protocol of Search-R1.

``{"queries": […], "topk": k, "return_scores": bool}`` is posted; the answer is ``{"result": [[hit,
…], …]}``, one list per query. A hit is ``{"document": {…}, "score": s}`` or the document itself; a
document has ``contents`` (title, line feed, text) or ``title`` and ``text``. What does not fit is
an error, never cut to fit.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2

from whale_core.errors import InputError
from whale_core.keys import content_hash, json_hash
from whale_core.records import Json
from whale_searchqa.retrieval.config import RetrieverConfig
from whale_searchqa.retrieval.passages import Passage, halves
from whale_searchqa.retrieval.retriever import Hit, RetrieverFault

MAX_BYTES = 32 << 20  # of an answer
FIRST_WAIT = 0.5  # seconds before the second attempt; doubled before each further one
MAX_WAIT = 8.0
CONNECTIONS = 64
PROBE_TOPK = 3


class Unusable(Exception):
    """One attempt failed, and why in one line."""


class HttpRetriever:
    """A ``Retriever`` that asks one of several servers of the same index.

    Which one a search begins with depends on its queries alone; each further attempt asks the next.
    The client belongs to the event loop it was made in, and another loop gets another.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        return_scores: bool = True,
        timeout: float = 30.0,
        attempts: int = 4,
        deadline: float = 90.0,
    ) -> None:
        """Raise ``InputError`` for an address that is none."""
        for url in urls:
            try:
                parsed = httpx2.URL(url)
            except (httpx2.InvalidURL, ValueError):
                parsed = httpx2.URL("")
            if parsed.scheme not in ("http", "https") or not parsed.host:
                raise InputError(
                    f"domain.retriever.url={url}: not an address such as "
                    "http://localhost:8000/retrieve"
                )
        self._urls = tuple(urls)
        self._scores = return_scores
        self._timeout = timeout
        self._attempts = attempts
        self._deadline = deadline
        self._client: tuple[asyncio.AbstractEventLoop, httpx2.AsyncClient] | None = None

    @classmethod
    def of(cls, config: RetrieverConfig) -> HttpRetriever:
        """Return the retriever of the settings."""
        return cls(
            [url for url in config.urls if url],
            return_scores=config.return_scores,
            timeout=config.timeout,
            attempts=config.attempts,
            deadline=config.deadline,
        )

    def facts(self) -> Mapping[str, Json]:
        """Return where answers come from; what lies behind, ``probe`` finds out."""
        return {"kind": "http", "urls": list(self._urls), "return_scores": self._scores}

    async def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """Ask until a server answers or the attempts or the time are used up."""
        if not queries or topk < 1:
            return [[] for _ in queries]
        client = self._connected()
        first = int(content_hash(*queries, length=8), 16)
        until = time.monotonic() + self._deadline
        wait = FIRST_WAIT
        problem = ""
        for attempt in range(self._attempts):
            url = self._urls[(first + attempt) % len(self._urls)]
            left = until - time.monotonic()
            if left <= 0:
                break
            try:
                return await self._ask(client, url, queries, topk, min(self._timeout, left))
            except Unusable as error:
                problem = f"{url}: {error}"
            if attempt + 1 < self._attempts:
                await asyncio.sleep(min(wait, max(0.0, until - time.monotonic())))
                wait = min(2 * wait, MAX_WAIT)
        raise RetrieverFault(f"retriever {problem or f'no answer in {self._deadline:g} s'}")

    async def probe(self, queries: Sequence[str]) -> str:
        """Ask every server once; return the hash of the passages found, without their scores, which
        may depend on the server's machine.

        Raises:
            InputError: one does not answer as it must, or finds other passages than the first.
        """
        found: dict[str, str] = {}
        async with self._connect() as client:
            for url in self._urls:
                try:
                    hits = await self._ask(client, url, queries, PROBE_TOPK, self._timeout)
                except Unusable as error:
                    raise InputError(
                        f"domain.retriever.url={url}: {error}; is a retriever running there "
                        "(whale-searchqa serve INDEX)?"
                    ) from error
                found[url] = json_hash([[hit.passage.document() for hit in each] for each in hits])
        first = self._urls[0]
        if other := next((url for url in found if found[url] != found[first]), None):
            raise InputError(
                f"domain.retriever.url={other}: finds other passages than {first}; all addresses "
                "must serve one index"
            )
        return found[first]

    async def close(self) -> None:
        """Close the connections of the running loop."""
        made, self._client = self._client, None
        if made is not None and made[0] is asyncio.get_running_loop():
            await made[1].aclose()

    def _connected(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._client is None or self._client[0] is not loop:
            self._client = (loop, self._connect())
        return self._client[1]

    def _connect(self) -> httpx2.AsyncClient:
        limits = httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
        # Uncompressed, so that what is counted against MAX_BYTES is what was sent.
        plain = {"Accept-Encoding": "identity"}
        return httpx2.AsyncClient(limits=limits, timeout=None, headers=plain)

    async def _ask(
        self,
        client: httpx2.AsyncClient,
        url: str,
        queries: Sequence[str],
        topk: int,
        timeout: float,
    ) -> list[list[Hit]]:
        body = {"queries": list(queries), "topk": topk, "return_scores": self._scores}
        try:
            async with asyncio.timeout(timeout), client.stream("POST", url, json=body) as answer:
                data = bytearray()
                async for chunk in answer.aiter_bytes():
                    data += chunk
                    if len(data) > MAX_BYTES:
                        raise Unusable(f"an answer of more than {MAX_BYTES} bytes")
                status = answer.status_code
        except Unusable:
            raise
        except TimeoutError:
            raise Unusable(f"no answer within {timeout:.3g} s") from None
        except Exception as error:  # whatever the client makes of the network
            reason = " ".join(str(error).split()) or type(error).__name__
            raise Unusable(f"cannot be reached ({reason[:200]})") from error
        if status != 200:
            said = " ".join(bytes(data[:200]).decode(errors="replace").split())
            raise Unusable(f"answered with status {status}: {said}")
        return read_answer(bytes(data), len(queries), topk)


def read_answer(data: bytes, queries: int, topk: int) -> list[list[Hit]]:
    """Return the hits in an answer to that many queries. Raise ``Unusable`` for any other shape."""
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unusable("the answer is not JSON") from error
    result = answer.get("result") if isinstance(answer, dict) else None
    if not isinstance(result, list) or not all(isinstance(hits, list) for hits in result):
        raise Unusable('the answer has no list of lists under "result"')
    if len(result) != queries:
        raise Unusable(f"{len(result)} result lists for {queries} queries")
    if (most := max(map(len, result), default=0)) > topk:
        raise Unusable(f"{most} results for a query that asked for {topk}")
    return [[_hit(each) for each in hits] for hits in result]


def _hit(item: Any) -> Hit:
    score: float | None = None
    document = item
    if isinstance(item, dict) and "document" in item:
        document, given = item["document"], item.get("score")
        if given is not None:
            if isinstance(given, bool) or not isinstance(given, int | float):
                raise Unusable("a result's score is not a number")
            try:
                score = float(given)
            except OverflowError:
                score = math.inf
            if not math.isfinite(score):
                raise Unusable("a result's score is not finite")
    if not isinstance(document, dict):
        raise Unusable("a result is no document")
    return Hit(_passage(document), score)


def _passage(document: Mapping[str, Any]) -> Passage:
    contents = document.get("contents")
    if contents is None:
        title, text = document.get("title", ""), document.get("text")
    elif isinstance(contents, str):
        title, _, text = contents.partition("\n")
    else:
        title, text = None, None
    if not isinstance(title, str) or not isinstance(text, str):
        raise Unusable('a document has neither "contents" nor "title" and "text"')
    if halves(title) or halves(text):
        raise Unusable("a document holds half a surrogate pair")
    if len(title) > 1 and title[0] == title[-1] == '"':
        title = title[1:-1]
    name = document.get("id")
    if isinstance(name, bool) or not isinstance(name, str | int):
        name = content_hash(title, text)
    return Passage(str(name), title, text)

"""What every retriever is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import frozen

from whale_core.records import Json
from whale_searchqa.retrieval.passages import Passage


@frozen
class Hit:
    """A passage that was found; the score is the retriever's own, larger is better."""

    passage: Passage
    score: float | None


class RetrieverFault(RuntimeError):
    """A search failed through no fault of who asked: the rollout is not scored.

    Never a ``ValueError``: that one is the harness's to answer for.
    """


class Retriever(Protocol):
    """Finds passages. What it finds for a query depends on that query and the index alone: never
    on the other queries of a call, on other calls, or on timing."""

    def facts(self) -> Mapping[str, Json]:
        """Return what defines its results: kind, corpus, settings."""
        ...

    async def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """Return one list of at most ``topk`` hits per query, in order; the best first, equal
        scores by the order of the corpus.

        Raises:
            RetrieverFault: the search failed, after what retries there are.
        """
        ...

    async def probe(self, queries: Sequence[str]) -> str:
        """Check that a search can work, possibly in an event loop of its own. Return a hash of the
        passages that ``queries`` find where ``facts`` do not say which passages there are, and
        nothing where they do.

        Raises:
            InputError: it cannot.
        """
        ...

    async def close(self) -> None:
        """Free what belongs to the running event loop. Idempotent."""
        ...

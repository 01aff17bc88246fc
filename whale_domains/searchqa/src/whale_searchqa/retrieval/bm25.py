"""BM25 over words, by ``bm25s``: in memory for a small corpus, memory-mapped from an index folder.

The scores are those of Lucene's formula, which are above 0 exactly where a word is shared; passages
that share none are not found, so a list may be shorter than was asked for.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from whale_core.errors import InputError
from whale_core.records import Json
from whale_searchqa.retrieval.passages import Passage, corpus_hash
from whale_searchqa.retrieval.retriever import Hit
from whale_searchqa.retrieval.words import VERSION, words

K1 = 1.5
B = 0.75
METHOD = "lucene"
MAX_WORDS = 256  # of a query; the rest is not looked for
SETTINGS: Mapping[str, Json] = {"k1": K1, "b": B, "method": METHOD, "words": VERSION}


class BM25Retriever:
    """A ``Retriever`` over ``passages``, by the scores of ``model`` (a ``bm25s.BM25``)."""

    def __init__(self, passages: Sequence[Passage], model: Any, corpus: str) -> None:
        self._passages = passages
        self._model = model
        self._corpus = corpus

    @classmethod
    def in_memory(cls, passages: Sequence[Passage]) -> BM25Retriever:
        """Index ``passages`` now. Raise ``InputError`` if no passage holds a word."""
        return cls(passages, index_words(passages), corpus_hash(passages))

    @classmethod
    def mapped(cls, passages: Sequence[Passage], folder: Path, corpus: str) -> BM25Retriever:
        """Use the index that ``save_index`` wrote into ``folder``, memory-mapped."""
        import bm25s

        model = bm25s.BM25.load(folder, mmap=True, show_progress=False)
        return cls(passages, model, corpus)

    def facts(self) -> Mapping[str, Json]:
        """Return the corpus, and what scores depend on."""
        return {
            "kind": "bm25",
            "corpus": self._corpus,
            "passages": len(self._passages),
            **SETTINGS,
        }

    async def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """Search on a thread. See ``Retriever``."""
        return await asyncio.to_thread(lambda: [self.find(query, topk) for query in queries])

    def find(self, query: str, topk: int) -> list[Hit]:
        """Return the hits of one query, in the calling thread."""
        known = self._model.vocab_dict
        ids = [known[word] for word in words(query)[:MAX_WORDS] if word in known]
        if not ids or topk < 1:
            return []
        scores = self._model.get_scores_from_ids(ids)
        return [Hit(self._passages[row], float(scores[row])) for row in best(scores, topk)]

    async def probe(self, queries: Sequence[str]) -> str:
        """Nothing to reach, and the facts name the corpus."""
        return ""

    async def close(self) -> None:
        """Nothing is bound to a loop."""


def best(scores: np.ndarray[Any, Any], topk: int) -> list[int]:
    """Return the rows of the ``topk`` largest scores above 0, the first row first among equals.

    ``scores`` is ``float[passages]``.
    """
    rows = np.flatnonzero(scores)  # partitioning millions of equal zeros would take far longer
    found = scores[rows]
    if topk < len(rows):
        near = found >= np.partition(found, -topk)[-topk]
        rows, found = rows[near], found[near]
    order = np.argsort(-found, kind="stable")[:topk]
    return [int(row) for row in rows[order]]


def index_words(
    passages: Iterable[Passage], progress: Callable[[int], None] = lambda done: None
) -> Any:
    """Return a ``bm25s.BM25`` over the titles and texts of ``passages``.

    ``progress`` gets the number of passages read so far, now and then.
    """
    import bm25s
    from bm25s.tokenization import Tokenized

    vocabulary: dict[str, int] = {}
    ids: list[Any] = []
    for passage in passages:
        found = words(passage.title) + words(passage.text)
        ids.append(array("i", [vocabulary.setdefault(word, len(vocabulary)) for word in found]))
        if len(ids) % 10_000 == 0:
            progress(len(ids))
    if not vocabulary:
        raise InputError("no passage of the corpus holds a word to search for")
    model = bm25s.BM25(k1=K1, b=B, method=METHOD, backend="numpy")
    model.index(Tokenized(ids, vocabulary), show_progress=False)
    return model


def save_index(model: Any, folder: Path) -> None:
    """Write an index of ``index_words`` into ``folder``."""
    model.save(folder, show_progress=False)

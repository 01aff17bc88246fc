"""From settings to a retriever; what does not fit together is reported before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from whale_core.errors import InputError
from whale_searchqa.retrieval.config import RetrieverConfig
from whale_searchqa.retrieval.passages import Passage, read_passages
from whale_searchqa.retrieval.retriever import Retriever

WHERE = "domain.retriever"


def build_retriever(
    config: RetrieverConfig, corpus: str, bundled: Callable[[], Sequence[Passage]]
) -> Retriever:
    """Return the retriever that the settings name.

    ``corpus`` is the path in ``domain.corpus`` ("" if not set); ``bundled`` makes the passages that
    are searched where neither a corpus nor an index nor an address is given.

    Raises:
        InputError: a setting is missing or belongs to another kind, the corpus or the index cannot
            be used.
    """
    _check(config, corpus)
    if config.kind == "http":
        from whale_searchqa.retrieval.http import HttpRetriever

        return HttpRetriever.of(config)
    if config.index:
        from whale_searchqa.retrieval.open import open_index

        return open_index(Path(config.index), config.kind, config.encoder, config.device)
    from whale_searchqa.retrieval.bm25 import BM25Retriever

    passages = tuple(read_passages(Path(corpus))) if corpus else tuple(bundled())
    return BM25Retriever.in_memory(passages)


def _check(config: RetrieverConfig, corpus: str) -> None:
    """Raise ``InputError`` for settings that do not fit together."""
    kind = config.kind
    urls = [url for url in config.urls if url]
    if kind == "http" and not urls:
        raise InputError(f"{WHERE}.url: missing; name the server's address, http://…/retrieve")
    if kind == "dense" and not config.index:
        raise InputError(
            f"{WHERE}.index: missing; dense retrieval needs an index folder: whale-searchqa index "
            "CORPUS --kind dense --encoder ENCODER --out DIR"
        )
    given = {
        "index": (config.index, ("bm25", "dense")),
        "encoder": (config.encoder, ("dense",)),
        "url": ("".join(urls), ("http",)),
    }
    for name, (value, kinds) in given.items():
        if value and kind not in kinds:
            raise InputError(
                f"{WHERE}.{name}: is for {WHERE}.kind={' or '.join(kinds)}, but the kind is {kind}"
            )
    if corpus and (config.index or kind == "http"):
        other = "url" if kind == "http" else "index"
        raise InputError(
            f"domain.corpus={corpus}: {WHERE}.{other} brings its own passages; leave one out"
        )

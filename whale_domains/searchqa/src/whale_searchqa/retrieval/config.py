"""The settings of the retriever: ``domain.retriever.kind=http`` and so on."""

from __future__ import annotations

from typing import Annotated

from attrs import field, frozen
from attrs.validators import ge, gt, in_

from whale_core.config.paths import PathSetting
from whale_searchqa.retrieval.encoder_path import is_folder

KINDS = ("bm25", "dense", "http")


@frozen
class RetrieverConfig:
    """What finds passages."""

    kind: str = field(default="bm25", validator=in_(KINDS))
    """`bm25` (words), `dense` (vectors of an encoder) or `http` (a server that speaks the
    `/retrieve` protocol)."""
    index: Annotated[str, PathSetting()] = ""
    """Index folder, made by `whale-searchqa index`. Needed for `dense`; with `bm25` it takes the
    place of the corpus, which is indexed in memory at the start otherwise."""
    encoder: Annotated[str, PathSetting(is_folder)] = ""
    """For `dense`: where the index's encoder is now, a folder or a hub name; empty: where it was
    when the index was made."""
    device: str = "cpu"
    """For `dense`: where the encoder runs, `cpu` or `cuda`; the vectors too, if `faiss-gpu` is
    installed and the index is not HNSW."""
    url: str | tuple[str, ...] = ""
    """For `http`: the address that searches are posted to, `http://localhost:8000/retrieve`, or a
    list of addresses that serve the same index."""
    return_scores: bool = True
    """For `http`: whether to ask for scores."""
    timeout: float = field(default=30.0, validator=gt(0))
    """For `http`: seconds for one request."""
    attempts: int = field(default=4, validator=ge(1))
    """For `http`: requests made for one search, the first included; the addresses take turns."""
    deadline: float = field(default=90.0, validator=gt(0))
    """For `http`: seconds for one search with all its attempts and waits."""

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses as a tuple."""
        return (self.url,) if isinstance(self.url, str) else self.url

"""Dense retrieval: passages and queries as vectors of one encoder, compared by FAISS."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import fields

from whale_core.errors import InputError
from whale_core.records import Json
from whale_searchqa.retrieval.encoder import Encoder, Recipe
from whale_searchqa.retrieval.folder import MAKE, Manifest, committed
from whale_searchqa.retrieval.passages import Passage
from whale_searchqa.retrieval.retriever import Hit
from whale_searchqa.retrieval.vectors import (
    make_vectors,
    read_vectors,
    search_vectors,
    write_vectors,
)

SHARD = 4096  # passages whose vectors are committed together
INDEX = "vectors.faiss"
SHARDS = "shards"

Progress = Callable[[str, int, int], None]


class DenseRetriever:
    """A ``Retriever`` over ``passages``, whose vectors are the rows of ``index``."""

    def __init__(
        self, passages: Sequence[Passage], index: Any, encoder: Encoder, manifest: Manifest
    ) -> None:
        self._passages = passages
        self._index = index
        self._encoder = encoder
        self._manifest = manifest
        self._lock = threading.Lock()  # one search uses all cores, and a GPU index takes only one

    @classmethod
    def open(
        cls,
        folder: Path,
        manifest: Manifest,
        passages: Sequence[Passage],
        encoder: str = "",
        device: str = "cpu",
    ) -> DenseRetriever:
        """Open an index folder with its encoder, or the copy of it that ``encoder`` names.

        Raises:
            InputError: vectors, passages and encoder do not fit together.
        """
        settings = manifest.settings
        index = read_vectors(folder / INDEX, device)
        if index.ntotal != len(passages):
            raise InputError(
                f"{folder}: {index.ntotal} vectors for {len(passages)} passages; make it anew"
            )
        names = [each.name for each in fields(Recipe)]
        if missing := sorted({*names, "encoder", "weights"} - set(settings)):
            raise InputError(f"{folder}: a damaged index, its manifest lacks {missing[0]}; {MAKE}")
        recipe = Recipe(**{name: settings[name] for name in names})
        loaded = Encoder(encoder or settings["encoder"], recipe, device)
        if loaded.dimension != index.d:
            raise InputError(
                f"{folder}: its vectors have {index.d} dimensions, those of the encoder "
                f"{loaded.name} {loaded.dimension}; name the encoder that made it"
            )
        if loaded.weights != settings["weights"]:
            raise InputError(
                f"{folder}: made by an encoder with other weights than {loaded.name}'s; name the "
                "encoder that made it"
            )
        return cls(passages, index, loaded, manifest)

    def facts(self) -> Mapping[str, Json]:
        """Return the corpus, the encoder and the kind of index."""
        manifest = self._manifest
        named = {key: each for key, each in manifest.settings.items() if key != "encoder"}
        return {
            "kind": "dense",
            "corpus": manifest.corpus,
            "passages": manifest.passages,
            "encoder": self._encoder.name,
            **named,
        }

    async def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        """Search on a thread. See ``Retriever``."""
        return await asyncio.to_thread(self._find, list(queries), topk)

    def _find(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        if topk < 1:
            return [[] for _ in queries]
        with self._lock:
            vectors = self._encoder.queries(queries)
            found = [search_vectors(self._index, vector, topk) for vector in vectors]
        return [[Hit(self._passages[row], score) for row, score in rows] for rows in found]

    async def probe(self, queries: Sequence[str]) -> str:
        """Nothing to reach, and the facts name the corpus."""
        return ""

    async def close(self) -> None:
        """Nothing is bound to a loop."""


def encode_passages(
    passages: Sequence[Passage], encoder: Encoder, folder: Path, batch: int, progress: Progress
) -> None:
    """Write the vectors of all passages into ``folder``, shard by shard; those there are kept.

    Batches never span two shards, so a continued run encodes the same ones.
    """
    (folder / SHARDS).mkdir(exist_ok=True)
    total = len(passages)
    for number, start in enumerate(range(0, total, SHARD)):
        path = _shard(folder, number)
        end = min(start + SHARD, total)
        if not path.exists():
            texts = [f"{each.title}\n{each.text}" for each in passages[start:end]]
            # Texts of like length share a batch: less padding.
            order = sorted(range(len(texts)), key=lambda row: (len(texts[row]), row))
            vectors = np.empty((len(texts), encoder.dimension), np.float32)
            for first in range(0, len(texts), batch):
                rows = order[first : first + batch]
                vectors[rows] = encoder.passages([texts[row] for row in rows])
                progress("encoding passages", start + first + len(rows), total)
            with committed(path) as part, part.open("wb") as file:
                np.save(file, vectors)


def write_index(folder: Path, factory: str, progress: Progress) -> None:
    """Make the FAISS index from the shards in ``folder``."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    count, dimension = manifest["passages"], manifest["settings"]["dimension"]
    progress(f"making the {factory} index", count, count)
    index = make_vectors(factory, dimension, count, _Shards(folder, count))
    with committed(folder / INDEX) as part:
        write_vectors(index, part)


class _Shards:
    """The shards of a folder, one after the other, as often as they are asked for."""

    def __init__(self, folder: Path, count: int) -> None:
        self._paths = [_shard(folder, number) for number in range((count + SHARD - 1) // SHARD)]

    def __iter__(self) -> Iterator[np.ndarray[Any, Any]]:
        return (np.load(path) for path in self._paths)


def _shard(folder: Path, number: int) -> Path:
    return folder / SHARDS / f"{number:06d}.npy"

"""FAISS behind a few calls: make an index of vectors, search it, write and read it.

Scores are inner products (cosines where vectors are normalised). Each query is searched alone:
FAISS takes another way through the same sums for larger batches, whose last bits differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from whale_core.errors import InputError
from whale_core.keys import generator

FACTORIES = ("flat", "ivf", "hnsw")
NEIGHBOURS = 32  # HNSW: links of a vector
BUILD_EFFORT = 200  # HNSW: vectors looked at to place one
SEARCH_EFFORT = 128  # HNSW: vectors looked at to find some
PER_LIST = 64  # IVF: training vectors per list
PROBED = 32  # IVF: lists looked through

Vectors = np.ndarray[Any, Any]


def lists_for(count: int) -> int:
    """Return how many lists an IVF index of ``count`` vectors gets: about 4 √count."""
    return max(1, min(int(4 * math.sqrt(count)), count // PER_LIST))


def make_vectors(factory: str, dimension: int, count: int, blocks: Iterable[Vectors]) -> Any:
    """Return a FAISS index of the ``float32[·, dimension]`` blocks, ``count`` rows in all.

    ``blocks`` must allow for being gone through twice, which ``ivf`` needs. HNSW is built on one
    thread: on several, what links to what would depend on timing. It also depends on how the blocks
    are cut.
    """
    import faiss

    index: Any
    if factory == "hnsw":
        index = faiss.IndexHNSWFlat(dimension, NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = BUILD_EFFORT
        index.hnsw.efSearch = SEARCH_EFFORT
    elif factory == "ivf":
        lists = lists_for(count)
        flat = faiss.IndexFlatIP(dimension)
        index = faiss.IndexIVFFlat(flat, dimension, lists, faiss.METRIC_INNER_PRODUCT)
        index.nprobe = min(lists, PROBED)
        index.train(_sample(blocks, count, lists * PER_LIST))
    else:
        index = faiss.IndexFlatIP(dimension)
    threads = faiss.omp_get_max_threads()
    if factory == "hnsw":
        faiss.omp_set_num_threads(1)
    try:
        for block in blocks:
            index.add(np.ascontiguousarray(block, np.float32))
    finally:
        faiss.omp_set_num_threads(threads)
    return index


def search_vectors(index: Any, query: Vectors, topk: int) -> list[tuple[int, float]]:
    """Return rows and scores of the best ``topk`` for one ``float32[dimension]`` query, the best
    first, equal scores by row."""
    scores, rows = index.search(query[None], min(topk, index.ntotal))
    pairs = zip(rows[0].tolist(), scores[0].tolist(), strict=True)
    return sorted((pair for pair in pairs if pair[0] >= 0), key=lambda pair: (-pair[1], pair[0]))


def write_vectors(index: Any, path: Path) -> None:
    """Write an index into a file."""
    import faiss

    faiss.write_index(index, str(path))


def read_vectors(path: Path, device: str = "cpu") -> Any:
    """Read an index, onto a GPU where ``device`` is one, this is ``faiss-gpu`` and the index is not
    HNSW, which has no GPU form.

    Raises:
        InputError: it cannot be read.
    """
    import faiss

    try:
        index = faiss.read_index(str(path))
    except RuntimeError as error:
        raise InputError(f"{path}: a damaged index, remove the folder and make it anew") from error
    on_gpu = getattr(faiss, "get_num_gpus", lambda: 0)() > 0 and not hasattr(index, "hnsw")
    if device.startswith("cuda") and on_gpu:
        number = int(device.partition(":")[2] or 0)
        index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), number, index)
    return index


def _sample(blocks: Iterable[Vectors], count: int, wanted: int) -> Vectors:
    """Return ``wanted`` of the rows, chosen without regard to how blocks are cut."""
    chosen = np.sort(generator("ivf", count).choice(count, min(wanted, count), replace=False))
    found, start = [], 0
    for block in blocks:
        here = chosen[(chosen >= start) & (chosen < start + len(block))] - start
        found.append(np.asarray(block[here], np.float32))
        start += len(block)
    return np.concatenate(found)

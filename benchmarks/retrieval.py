"""What the search tool's indexes cost, beside the bare libraries they stand on.

    python benchmarks/retrieval.py [--passages 1000000] [--vectors 1000000] [--hnsw 100000]

BM25: that many generated passages (20 to 60 words, Zipf) as a corpus file; making an index folder
as `whale-searchqa index` does, and searches one by one, beside bm25s with its own tokenizer on the
same lines. Ours also checks and hashes the corpus and keeps the passages themselves, bare bm25s
keeps scores alone. FAISS: synthetic unit vectors of 64 dimensions, so this measures the index only,
no encoder; bare faiss gets the same parameters and all queries as one batch, which ours does not do
because an answer must not depend on its neighbours, and once more one by one. Each of them runs in
a process of its own, whose peak memory while the index is made is told; ratios are ours over bare.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

TOPK, VOCABULARY, DIMENSION, BLOCK = 5, 100_000, 64, 10_000
SHORTEST, LONGEST = 20, 60
Figures = dict[str, Any]


def write_corpus(path: Path, passages: int) -> None:
    rng = np.random.default_rng(5)
    with path.open("w") as file:
        for start in range(0, passages, BLOCK):
            block = min(BLOCK, passages - start)
            ranks = np.minimum(rng.zipf(1.2, (block, LONGEST)), VOCABULARY).tolist()
            lengths = rng.integers(SHORTEST, LONGEST + 1, block).tolist()
            for row, (words, length) in enumerate(zip(ranks, lengths, strict=True), start):
                text = " ".join(f"w{word}" for word in words[:length])
                file.write(json.dumps({"id": f"{row}", "contents": f'"t{row}"\n{text}'}) + "\n")


def word_queries(count: int) -> list[str]:
    """Return queries of six words, of which most are neither common nor unique."""
    ranks = np.random.default_rng(6).integers(10, 5000, (count, 6))
    return [" ".join(f"w{word}" for word in words) for words in ranks.tolist()]


def vectors(count: int, seed: int) -> Iterator[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    for start in range(0, count, BLOCK):
        block = rng.standard_normal((min(BLOCK, count - start), DIMENSION), np.float32)
        yield block / np.linalg.norm(block, axis=1, keepdims=True)


class Blocks:
    """The vectors of one seed, as often as they are asked for."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[np.ndarray[Any, Any]]:
        return vectors(self.count, 7)


def bm25_ours(folder: Path, size: int, queries: int) -> Figures:
    from whale_searchqa.retrieval.index import make_bm25
    from whale_searchqa.retrieval.open import open_index

    made = time.perf_counter()
    make_bm25(folder / "corpus.jsonl", folder / "ours", lambda doing, done, total: None)
    made = time.perf_counter() - made
    peak = peak_memory()
    retriever = open_index(folder / "ours")
    asked = word_queries(queries)

    async def search() -> list[str]:
        best = [(await retriever.search([query], TOPK))[0][0].score for query in asked]
        return [f"{score:.3f}" for score in best]

    asyncio.run(search())  # once before, so that pages of the mapped file are in memory
    searched = time.perf_counter()
    found = asyncio.run(search())
    return figures(made, time.perf_counter() - searched, queries, found, peak)


def bm25_bare(folder: Path, size: int, queries: int) -> Figures:
    import bm25s

    made = time.perf_counter()
    with (folder / "corpus.jsonl").open() as file:
        corpus = [json.loads(line)["contents"] for line in file]
    tokens = bm25s.tokenize(corpus, stopwords="en", show_progress=False)
    del corpus
    model = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    model.index(tokens, show_progress=False)
    model.save(folder / "bare", show_progress=False)
    made = time.perf_counter() - made
    del model, tokens
    peak = peak_memory()
    model = bm25s.BM25.load(folder / "bare", mmap=True)
    asked = word_queries(queries)

    def search() -> list[str]:
        found = []
        for query in asked:
            words = bm25s.tokenize(query, stopwords="en", show_progress=False)
            _, scores = model.retrieve(words, k=TOPK, show_progress=False)
            found.append(f"{scores[0][0]:.3f}")
        return found

    search()
    searched = time.perf_counter()
    found = search()
    return figures(made, time.perf_counter() - searched, queries, found, peak)


def faiss_ours(factory: str) -> Callable[[Path, int, int], Figures]:
    def run(folder: Path, size: int, queries: int) -> Figures:
        from whale_searchqa.retrieval.vectors import make_vectors, search_vectors

        asked = next(vectors(queries, 8))
        made = time.perf_counter()
        index = make_vectors(factory, DIMENSION, size, Blocks(size))
        made = time.perf_counter() - made
        searched = time.perf_counter()
        found = [str(search_vectors(index, query, TOPK)[0][0]) for query in asked]
        return figures(made, time.perf_counter() - searched, queries, found, peak_memory())

    return run


def faiss_bare(factory: str) -> Callable[[Path, int, int], Figures]:
    def run(folder: Path, size: int, queries: int) -> Figures:
        import faiss

        from whale_searchqa.retrieval import vectors as ours

        asked = next(vectors(queries, 8))
        made = time.perf_counter()
        lists = ours.lists_for(size)
        kind = {"flat": "Flat", "ivf": f"IVF{lists},Flat", "hnsw": f"HNSW{ours.NEIGHBOURS},Flat"}
        index = faiss.index_factory(DIMENSION, kind[factory], faiss.METRIC_INNER_PRODUCT)
        if factory == "ivf":
            index.nprobe = min(lists, ours.PROBED)
            wanted = lists * ours.PER_LIST
            index.train(np.concatenate(list(vectors(wanted, 7)))[:wanted])
        if factory == "hnsw":
            index.hnsw.efConstruction = ours.BUILD_EFFORT
            index.hnsw.efSearch = ours.SEARCH_EFFORT
        for block in vectors(size, 7):
            index.add(block)
        made = time.perf_counter() - made
        searched = time.perf_counter()
        _, rows = index.search(asked, TOPK)
        batch = time.perf_counter() - searched
        searched = time.perf_counter()
        for query in asked:
            index.search(query[None], TOPK)
        single = time.perf_counter() - searched
        found = [str(row[0]) for row in rows]
        told = figures(made, batch, queries, found, peak_memory())
        return {**told, "single": queries / single}

    return run


PARTS: dict[str, Callable[[Path, int, int], Figures]] = {
    "bm25-ours": bm25_ours,
    "bm25-bare": bm25_bare,
    **{f"{each}-ours": faiss_ours(each) for each in ("flat", "ivf", "hnsw")},
    **{f"{each}-bare": faiss_bare(each) for each in ("flat", "ivf", "hnsw")},
}


def figures(made: float, searched: float, queries: int, found: list[str], peak: float) -> Figures:
    return {"made": made, "rate": queries / searched, "peak": peak, "found": found}


def peak_memory() -> float:
    """Return the most memory that this process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(part: str, folder: Path, size: int, queries: int) -> Figures:
    command = [sys.executable, __file__, "--part", part, str(folder), str(size), str(queries)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    told: Figures = json.loads(ended.stdout)
    return told


def nearest(size: int, queries: int) -> list[str]:
    """Return the row of the vector that is truly nearest to each query."""
    asked = next(vectors(queries, 8))
    best, rows = np.full(queries, -2.0, np.float32), np.zeros(queries, np.int64)
    for number, block in enumerate(vectors(size, 7)):
        scores = asked @ block.T
        here = scores.argmax(1)
        top = scores[np.arange(queries), here]
        rows = np.where(top > best, number * BLOCK + here, rows)
        best = np.maximum(best, top)
    return [str(row) for row in rows]


def compare(kind: str, folder: Path, size: int, queries: int) -> None:
    ours, bare = (measured(f"{kind}-{each}", folder, size, queries) for each in ("ours", "bare"))
    truth = bare["found"] if kind == "bm25" else nearest(size, queries)
    print(f"{kind}, {size} of them, {queries} queries, top {TOPK}")
    for name, one in (("ours", ours), ("bare", bare)):
        single = f" ({one['single']:.0f} one by one)" if "single" in one else ""
        print(f"  {name}: made in {one['made']:.1f} s, peak {one['peak']:.0f} MB, ", end="")
        right = sum(found == true for found, true in zip(one["found"], truth, strict=True))
        print(f"{one['rate']:.0f} queries/s{single}, the best found for {right}")
    print(f"  ratios: time {ours['made'] / bare['made']:.2f}, ", end="")
    print(f"memory {ours['peak'] / bare['peak']:.2f}, ", end="")
    print(f"queries/s {ours['rate'] / bare['rate']:.2f}", end="")
    print(f" ({ours['rate'] / bare['single']:.2f})" if "single" in bare else "", flush=True)


def main() -> None:
    if sys.argv[1:2] == ["--part"]:
        part, folder, size, queries = sys.argv[2:]
        print(json.dumps(PARTS[part](Path(folder), int(size), int(queries))))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--hnsw", type=int, default=100_000, help="vectors for HNSW, slow to make")
    parser.add_argument("--queries", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if options.passages:
            write_corpus(folder / "corpus.jsonl", options.passages)
            compare("bm25", folder, options.passages, options.queries)
    for kind, size in (("flat", options.vectors), ("ivf", options.vectors), ("hnsw", options.hnsw)):
        if size:
            compare(kind, Path(), size, options.queries)


if __name__ == "__main__":
    main()

from __future__ import annotations

import asyncio
import math
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrieval_kit import rows, write_corpus

from whale_core.errors import InputError
from whale_searchqa.retrieval.bm25 import K1, B, BM25Retriever, best
from whale_searchqa.retrieval.index import make_bm25
from whale_searchqa.retrieval.open import open_index
from whale_searchqa.retrieval.passages import Passage, read_passages
from whale_searchqa.retrieval.retriever import Hit, Retriever
from whale_searchqa.retrieval.words import words


def quiet(doing: str, done: int, total: int) -> None:
    pass


def search(retriever: Retriever, queries: list[str], topk: int = 5) -> list[list[Hit]]:
    return asyncio.run(retriever.search(queries, topk))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "c.jsonl", rows(400))


@pytest.fixture(scope="module")
def small(corpus: Path) -> BM25Retriever:
    return BM25Retriever.in_memory(tuple(read_passages(corpus)))


def test_scores_are_those_of_the_formula() -> None:
    texts = ["red fox", "red red hen eats corn", "blue hen"]
    passages = tuple(Passage(f"{n}", "Note", text) for n, text in enumerate(texts))
    counted = [words(f"Note {text}") for text in texts]
    mean = sum(map(len, counted)) / 3
    wanted = []
    for found in counted:
        score = 0.0
        for word in ("red", "hen"):
            holding = sum(word in each for each in counted)
            rarity = math.log(1 + (3 - holding + 0.5) / (holding + 0.5))
            often = found.count(word)
            score += rarity * often / (often + K1 * (1 - B + B * len(found) / mean))
        wanted.append(score)
    (hits,) = search(BM25Retriever.in_memory(passages), ["Red hen?"])
    assert [hit.passage.id for hit in hits] == ["1", "0", "2"]  # 0 and 2 are as far: by order
    assert [hit.score for hit in hits] == pytest.approx([wanted[1], wanted[0], wanted[2]], rel=1e-5)


def test_only_passages_that_share_a_word_are_found(small: BM25Retriever) -> None:
    assert [hit.passage.id for hit in search(small, ["mark17"])[0]] == ["p17"]
    assert search(small, ["", "of the", "zzz", "mark3"], 3)[:3] == [[], [], []]
    assert search(small, ["sailor"], 0) == [[]]
    assert search(small, []) == []


def test_equal_scores_come_in_the_order_of_the_corpus(small: BM25Retriever) -> None:
    found = [int(hit.passage.id[1:]) for hit in search(small, ["sailor"], 30)[0]]
    assert found == list(range(1, 150, 5))


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=1, max_size=30), st.integers(1, 40))
def test_best_is_a_stable_sort_cut_off(scores: list[float], topk: int) -> None:
    order = sorted(range(len(scores)), key=lambda row: (-scores[row], row))
    assert best(np.array(scores, np.float32), topk) == [row for row in order if scores[row]][:topk]


def test_a_query_finds_the_same_alone_in_company_and_under_load(
    small: BM25Retriever, corpus: Path, tmp_path: Path
) -> None:
    make_bm25(corpus, tmp_path / "index", quiet)
    queries = [f"the {town} painter mark{n}" for n, town in enumerate(("Arlen", "Galdo") * 20)]
    alone = [search(small, [query])[0] for query in queries]
    assert search(small, queries[::-1]) == alone[::-1]
    mapped = open_index(tmp_path / "index", "bm25")
    assert search(mapped, queries) == alone
    assert mapped.facts() == small.facts()

    async def crowd() -> list[list[list[Hit]]]:
        return await asyncio.gather(*(mapped.search([query], 5) for query in queries))

    assert [hits for (hits,) in asyncio.run(crowd())] == alone


def test_a_search_leaves_the_event_loop_free(
    small: BM25Retriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop_thread, searched_on = threading.get_ident(), []

    def slow(query: str, topk: int) -> list[Hit]:
        searched_on.append(threading.get_ident())
        time.sleep(0.3)
        return []

    monkeypatch.setattr(small, "find", slow)

    async def ticks() -> int:
        count, task = 0, asyncio.create_task(small.search(["x"], 1))
        while not task.done():
            await asyncio.sleep(0.01)
            count += 1
        return count

    assert asyncio.run(ticks()) > 5
    assert searched_on and loop_thread not in searched_on


def test_a_corpus_without_words_is_refused() -> None:
    with pytest.raises(InputError, match="no passage of the corpus holds a word"):
        BM25Retriever.in_memory((Passage("1", "?", "the !"),))

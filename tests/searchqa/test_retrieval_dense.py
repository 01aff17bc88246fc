"""Dense retrieval: FAISS as it is, an encoder made here that has real weights but no training."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from retrieval_kit import TOWNS, TRADES, rows, write_corpus

from whale_core.errors import InputError
from whale_searchqa.retrieval.encoder import Encoder, Recipe, recipe_of
from whale_searchqa.retrieval.index import make_dense
from whale_searchqa.retrieval.open import open_index
from whale_searchqa.retrieval.vectors import (
    FACTORIES,
    make_vectors,
    read_vectors,
    search_vectors,
    write_vectors,
)

COUNT = 3000


def quiet(doing: str, done: int, total: int) -> None:
    pass


def make_encoder(folder: Path, hidden: int = 32, seed: int = 0) -> Path:
    """Write a BERT of one layer and its word list into ``folder``."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder.mkdir()
    known = {word.lower() for word in (*TOWNS, *TRADES, "person", "was", "a", "from", "known")}
    pieces = sorted(known | set("abcdefghijklmnopqrstuvwxyz0123456789.,?:"))
    pieces += [f"##{each}" for each in "abcdefghijklmnopqrstuvwxyz0123456789"]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = BertConfig(
            vocab_size=len(words),
            hidden_size=hidden,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=48,
            max_position_embeddings=64,
        )
        BertModel(config).save_pretrained(folder)
    return folder


def sentence_transformers_files(folder: Path, mode: str, prompts: dict[str, str]) -> None:
    kinds = ["Transformer", "Pooling", "Normalize"]
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": each, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for each, (path, kind) in enumerate(zip(paths, kinds, strict=True))
    ]
    (folder / "1_Pooling").mkdir()
    pooling = {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": False, mode: True}
    for name, content in (
        ("modules.json", modules),
        ("1_Pooling/config.json", pooling),
        ("sentence_bert_config.json", {"max_seq_length": 20}),
        ("config_sentence_transformers.json", {"prompts": prompts}),
    ):
        (folder / name).write_text(json.dumps(content))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoders") / "small")


@pytest.fixture(scope="module")
def index(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("dense")
    corpus = write_corpus(place / "c.jsonl", rows(80))
    make_dense(corpus, place / "index", Encoder(str(folder), Recipe()), "flat", 16, quiet)
    return place / "index"


def blocks(seed: int = 1) -> list[np.ndarray[Any, Any]]:
    made = np.random.default_rng(seed).standard_normal((COUNT, 16)).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return np.split(made, [1000, 1010, 2500])


@pytest.mark.parametrize("factory", FACTORIES)
def test_the_nearest_vectors_are_found_best_first(factory: str, tmp_path: Path) -> None:
    made = blocks()
    write_vectors(make_vectors(factory, 16, COUNT, made), tmp_path / "v")
    index = read_vectors(tmp_path / "v")
    every = np.concatenate(made)
    right = 0
    for query in np.concatenate(blocks(2))[:50]:
        exact = every @ query
        found = search_vectors(index, query, 10)
        assert [score for _, score in found] == pytest.approx(
            [exact[row] for row, _ in found], abs=1e-5
        )
        assert [score for _, score in found] == sorted((s for _, s in found), reverse=True)
        right += len({row for row, _ in found} & set(np.argsort(-exact)[:10].tolist()))
    assert right == 500 if factory == "flat" else right >= 450, right


@pytest.mark.parametrize("factory", FACTORIES)
def test_an_index_depends_on_its_vectors_alone(factory: str, tmp_path: Path) -> None:
    whole = [np.concatenate(blocks())]
    write_vectors(make_vectors(factory, 16, COUNT, blocks()), tmp_path / "a")
    again = blocks() if factory == "hnsw" else whole  # its levels are drawn block by block
    write_vectors(make_vectors(factory, 16, COUNT, again), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert search_vectors(read_vectors(tmp_path / "a"), whole[0][5], COUNT + 5)[0][0] == 5


def test_few_vectors_are_enough_for_every_factory() -> None:
    one = np.eye(4, dtype=np.float32)[:2]
    for factory in FACTORIES:
        assert search_vectors(make_vectors(factory, 4, 2, [one]), one[1], 5)[0] == (1, 1.0)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_are_pooled_tokens(folder: Path, pooling: str) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(folder)("query: painter from arlen", return_tensors="pt")
    with torch.inference_mode():
        hidden = AutoModel.from_pretrained(folder)(**tokens).last_hidden_state[0].numpy()
    wanted = hidden[0] if pooling == "cls" else hidden.mean(0)
    raw = Encoder(str(folder), Recipe(pooling, normalise=False, query_prefix="query: "))
    (made,) = raw.queries(["painter from arlen"])
    assert made == pytest.approx(wanted, abs=1e-5)
    (unit,) = Encoder(str(folder), Recipe(pooling, query_prefix="query: ")).queries(
        ["painter from arlen"]
    )
    assert unit == pytest.approx(wanted / np.linalg.norm(wanted), abs=1e-5)


def test_padding_and_prefixes(folder: Path) -> None:
    encoder = Encoder(str(folder), Recipe(query_prefix="query: ", passage_prefix="passage: "))
    texts = ["painter", "a sailor from galdo known from borgo", ""]
    batch = encoder.passages(texts)
    for row, text in zip(batch, texts, strict=True):
        assert row == pytest.approx(encoder.passages([text])[0], abs=1e-5)
    assert not np.allclose(encoder.queries(texts), batch, atol=1e-3)
    assert np.array_equal(encoder.queries(texts)[1:2], encoder.queries(texts[1:2]))
    plain = Encoder(str(folder), Recipe())
    assert plain.queries(["query: painter"]) == pytest.approx(encoder.queries(["painter"]))


def test_long_texts_are_cut_where_the_encoder_ends(folder: Path) -> None:
    encoder = Encoder(str(folder), Recipe())
    assert encoder.recipe.max_tokens == 64
    long = "painter " * 62  # and two marks
    assert np.array_equal(encoder.queries([long]), encoder.queries([long + "sailor " * 500]))


def test_the_recipe_of_sentence_transformers_is_followed(tmp_path: Path) -> None:
    encoder = tmp_path / "e"
    encoder.mkdir()
    with pytest.raises(InputError, match=r"no modules\.json .*: give --pooling mean or"):
        recipe_of(str(encoder))
    assert recipe_of(str(encoder), "mean") == Recipe()
    sentence_transformers_files(encoder, "pooling_mode_cls_token", {"query": "q: ", "passage": ""})
    assert recipe_of(str(encoder)) == Recipe("cls", True, "q: ", "", 20)
    assert recipe_of(str(encoder), "mean") == Recipe("mean", True, "q: ", "", 20)
    (encoder / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true}')
    with pytest.raises(InputError, match="pooling by pooling_mode_max_tokens"):
        recipe_of(str(encoder))
    (encoder / "modules.json").write_text('[{"path": "2", "type": "x.models.Dense"}]')
    with pytest.raises(InputError, match="Dense is not supported"):
        recipe_of(str(encoder))
    (encoder / "modules.json").write_text("{")
    with pytest.raises(InputError, match=r"modules\.json"):
        recipe_of(str(encoder))


def test_a_model_of_the_hub_is_asked_how_it_pools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    hub = tmp_path / "hub"
    hub.mkdir()
    asked: list[str] = []

    def download(name: str, file: str) -> str:
        asked.append(file)
        if name == "out/of-reach":
            raise LocalEntryNotFoundError("no network\nat all")
        if name != "some/name":
            raise ValueError("no such name")
        if not (hub / file).is_file():
            raise EntryNotFoundError(f"no {file}")
        return str(hub / file)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(InputError, match=r"some/name: it has no modules\.json"):
        recipe_of("some/name")
    sentence_transformers_files(hub, "pooling_mode_cls_token", {"query": "q: "})
    assert recipe_of("some/name") == Recipe("cls", True, "q: ", "", 20)
    assert "1_Pooling/config.json" in asked
    for name in ("out/of-reach", "no name"):
        with pytest.raises(InputError, match=f"encoder {name}: neither a folder here nor") as told:
            recipe_of(name, "cls")
        assert "\n" not in str(told.value)


@pytest.mark.parametrize("factory", FACTORIES)
def test_a_passages_own_text_finds_it(factory: str, folder: Path, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "c.jsonl", rows(80))
    make_dense(corpus, tmp_path / "i", Encoder(str(folder), Recipe()), factory, 7, quiet)
    retriever = open_index(tmp_path / "i", "dense")
    texts = [row["contents"].replace('"', "") for row in rows(80)]
    found = asyncio.run(retriever.search(texts, 3))
    assert [hits[0].passage.id for hits in found] == [row["id"] for row in rows(80)]
    assert all(hits[0].score == pytest.approx(1, abs=1e-4) and len(hits) == 3 for hits in found)
    facts = retriever.facts()
    assert facts["kind"] == "dense" and facts["passages"] == 80 and facts["factory"] == factory


def test_a_query_finds_the_same_alone_in_company_and_under_load(index: Path) -> None:
    retriever = open_index(index)
    queries = [f"the {trade} of {town}" for town in TOWNS for trade in TRADES]
    alone = [asyncio.run(retriever.search([query], 4))[0] for query in queries]
    assert asyncio.run(retriever.search(queries[::-1], 4)) == alone[::-1]

    async def crowd() -> Any:
        return await asyncio.gather(*(retriever.search([query], 4) for query in queries))

    assert [hits for (hits,) in asyncio.run(crowd())] == alone
    assert asyncio.run(retriever.search(["x"], 0)) == [[]]
    assert len(asyncio.run(retriever.search(["x"], 100))[0]) == 80


def test_an_index_and_an_encoder_that_do_not_fit_are_one_line(
    index: Path, folder: Path, tmp_path: Path
) -> None:
    wide, other = make_encoder(tmp_path / "wide", hidden=48), make_encoder(tmp_path / "o", seed=1)
    cases = {
        str(wide): "have 32 dimensions, those of the encoder .*wide 48",
        str(other): "an encoder with other weights",
        str(tmp_path): "cannot be used on cpu",
        str(tmp_path / "none"): "cannot be used on cpu",
    }
    for encoder, said in cases.items():
        with pytest.raises(InputError, match=said) as caught:
            open_index(index, "dense", encoder)
        assert "\n" not in str(caught.value)
    moved = folder.rename(tmp_path / "moved")
    try:
        assert open_index(index, "dense", str(moved)).facts()["dimension"] == 32
    finally:
        moved.rename(folder)
    with pytest.raises(InputError, match="cannot be used on nowhere"):
        Encoder(str(folder), evolve(Recipe()), "nowhere")


def test_damaged_vectors_are_one_line(index: Path, tmp_path: Path) -> None:
    broken = tmp_path / "index"
    shutil.copytree(index, broken)
    write_vectors(make_vectors("flat", 32, 2, [np.eye(32, dtype=np.float32)[:2]]), tmp_path / "v")
    damage = {
        b"garbage": "damaged",
        (index / "vectors.faiss").read_bytes()[:-100]: "damaged",
        (tmp_path / "v").read_bytes(): "2 vectors for 80 passages",
    }
    for data, said in damage.items():
        (broken / "vectors.faiss").write_bytes(data)
        with pytest.raises(InputError, match=said) as caught:
            open_index(broken)
        assert "\n" not in str(caught.value)
    manifest = json.loads((broken / "manifest.json").read_text())
    del manifest["settings"]["pooling"]
    (broken / "manifest.json").write_text(json.dumps(manifest))
    (broken / "vectors.faiss").write_bytes((index / "vectors.faiss").read_bytes())
    with pytest.raises(InputError, match="lacks pooling"):
        open_index(broken)

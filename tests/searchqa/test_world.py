"""The bundled worlds, and the tool that makes them."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from whale_core.plugins import Setup
from whale_searchqa.answers import contained
from whale_searchqa.config import Config
from whale_searchqa.domain import SearchQADomain
from whale_searchqa.questions import bundled
from whale_searchqa.retrieval.passages import Passage, read_passages

ROOT = Path(__file__).parents[2]
WORLDS = ("world", "tuning")


def rows(world: str) -> list[dict[str, Any]]:
    data = gzip.decompress((bundled(world) / "questions.jsonl.gz").read_bytes()).decode()
    return [json.loads(line) for line in data.splitlines()]


def passages(world: str) -> list[Passage]:
    return list(read_passages(bundled(world) / "corpus.jsonl.gz"))


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = ROOT / "whale_domains/searchqa/tools/generate_world.py"
    spec = importlib.util.spec_from_file_location("generate_world", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_files_are_those_of_the_manifest():
    manifest = json.loads((bundled("world").parent / "manifest.json").read_text())
    assert set(manifest) == set(WORLDS)
    assert len({entry["seed"] for entry in manifest.values()}) == 2
    for world, entry in manifest.items():
        for name in ("corpus", "questions"):
            packed = (bundled(world) / f"{name}.jsonl.gz").read_bytes()
            text = gzip.decompress(packed)
            assert len(packed) < 150_000
            assert hashlib.sha256(text).hexdigest() == entry[name]["sha256"]
            assert text.count(b"\n") == entry[name]["rows"]


def test_the_generator_makes_the_bundled_rows_again(tool: ModuleType, tmp_path: Path):
    manifest = json.loads((bundled("world").parent / "manifest.json").read_text())
    entry = manifest["world"]
    tool.write(
        tmp_path / "world", entry["seed"], tool.world(entry["seed"], entry["clusters"], set())
    )
    assert json.loads((tmp_path / "manifest.json").read_text())["world"] == entry
    taken = tool.names_in(bundled("world"))
    entry = manifest["tuning"]
    again = tool.world(entry["seed"], entry["clusters"], taken)
    tool.write(tmp_path / "tuning", entry["seed"], again)
    assert json.loads((tmp_path / "manifest.json").read_text())["tuning"] == entry


def test_a_world_is_large_enough_and_names_nothing_twice():
    for world, least in (("world", 500), ("tuning", 300)):
        titles = [passage.title for passage in passages(world)]
        assert len(titles) == len(set(titles)) >= least
        questions = [row["question"] for row in rows(world)]
        assert len(questions) == len(set(questions))
        assert Counter(row["metadata"]["hops"] for row in rows(world))[2] >= 500


def test_the_worlds_share_no_name(tool: ModuleType):
    first, second = (tool.names_in(bundled(world)) for world in WORLDS)
    assert len(first) >= 1000 and not first & second
    texts = [passage.contents for passage in passages("tuning")]
    invented = {name for name in first if not name.startswith("The ")}
    words = {word.strip(".,") for text in texts for word in text.split()}
    assert not invented & words


def test_one_hop_answers_stand_in_the_passage_of_the_entity_and_two_hop_answers_do_not():
    for world in WORLDS:
        texts = {passage.title: passage.text for passage in passages(world)}
        for row in rows(world):
            metadata = row["metadata"]
            assert len(metadata["entities"]) == metadata["hops"]
            named, last = metadata["entities"][0], metadata["entities"][-1]
            assert named in row["question"]
            assert contained(texts[last], row["golden_answers"])
            if metadata["hops"] == 2:
                assert last not in row["question"] and last in texts[named]
                assert not contained(texts[named], row["golden_answers"])


def test_a_passage_names_only_entities_of_its_cluster():
    groups = {row["metadata"]["entities"][0]: row["metadata"]["group"] for row in rows("world")}
    for passage in passages("world"):
        named = {group for name, group in groups.items() if name in passage.text}
        assert named == {groups[passage.title]}


def test_no_entity_of_a_question_is_in_two_splits():
    domain = SearchQADomain(Config(), Setup(seed=0))
    entities = {row["question"]: set(row["metadata"]["entities"]) for row in rows("world")}
    seen: dict[str, str] = {}
    for name in ("weight", "harness", "selection", "test"):
        for one in domain.split(name):
            for entity in entities[one.content["question"]]:
                assert seen.setdefault(entity, name) == name


def test_the_question_finds_its_passage():
    """What harnesses can reach: the first passage for one hop, and hardly any for two."""
    domain = SearchQADomain(Config(), Setup(seed=0))
    hops = {row["question"]: row["metadata"]["hops"] for row in rows("world")}
    found: dict[int, list[bool]] = {1: [], 2: []}
    for one in domain.split("harness"):
        environment = domain.environment(one)
        asyncio.run(environment.call("search", {"query": one.content["question"], "topk": 1}))
        found[hops[one.content["question"]]].append(environment.record()["evidence"])
    assert sum(found[1]) / len(found[1]) > 0.95
    assert sum(found[2]) / len(found[2]) < 0.15


def test_the_default_mixes_one_hop_and_two(domain: SearchQADomain):
    hops = {row["question"]: row["metadata"]["hops"] for row in rows("world")}
    sizes = {"weight": 960, "harness": 256, "selection": 256, "test": 256}
    assert domain.notes == ()
    for name, size in sizes.items():
        found = [hops[one.content["question"]] for one in domain.split(name)]
        assert len(found) == size and 0.3 < found.count(2) / size < 0.5
    single = SearchQADomain(Config(hops=1), Setup(seed=0))
    assert {hops[one.content["question"]] for one in single.split("weight")} == {1}


def test_example_ids_tell_no_answer_and_content_no_metadata(domain: SearchQADomain):
    one = domain.split("test")[0]
    assert set(one.content) == {"question", "answers"}
    assert one.content["answers"][0] not in one.id and one.source == ""

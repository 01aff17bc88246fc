from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from searchqa_kit import call, example, trajectory

from whale_core.records import Json, Outcome
from whale_searchqa.domain import SearchQADomain
from whale_searchqa.environment import SearchEnvironment, truncated
from whale_searchqa.metrics import METRICS
from whale_searchqa.retrieval.retriever import Hit


def first(domain: SearchQADomain) -> Any:
    return domain.split("weight")[0]


def search(environment: SearchEnvironment, **arguments: Json) -> Any:
    return asyncio.run(environment.call("search", arguments))


def test_a_search_returns_titles_and_texts_and_is_recorded(domain: SearchQADomain):
    one = first(domain)
    environment = domain.environment(one)
    assert environment.view() == {"question": one.content["question"]}
    assert environment.record() == {"searches": [], "evidence": False}
    found = search(environment, query=one.content["question"])
    assert set(found) == {"documents"} and 1 <= len(found["documents"]) <= 3
    assert all(set(each) == {"title", "text"} for each in found["documents"])
    record = environment.record()
    [made] = record["searches"]
    assert record["evidence"] and made["evidence"]
    assert (made["query"], made["topk"]) == (one.content["question"], 3)
    assert len(made["ids"]) == len(found["documents"])
    search(environment, query="nothing that is there", topk=1)
    assert len(environment.record()["searches"]) == 2 and environment.record()["evidence"]


def test_evidence_is_what_the_harness_got(domain: SearchQADomain):
    one = first(domain)
    environment = domain.environment(one)
    search(environment, query=one.content["question"], topk=1, max_doc_tokens=1)
    assert not environment.record()["evidence"]  # cut off before it
    search(environment, query=one.content["question"], topk=1)
    assert environment.record()["evidence"]


def test_the_references_are_neither_in_the_view_nor_in_the_record(domain: SearchQADomain):
    environment = domain.environment(example("Otto Brandel?", ["zqxj"]))
    search(environment, query="Otto")
    assert "zqxj" not in str(environment.view()) + str(environment.record())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "takes query"),
        ({"query": "x", "k": 3}, "takes query"),
        ({"query": ""}, "query must be"),
        ({"query": " \n"}, "query must be"),
        ({"query": ["x"]}, "query must be"),
        ({"query": "x" * 2001}, "2001 characters"),
        ({"query": "x", "topk": 0}, "topk must be a whole number, 1 to 20"),
        ({"query": "x", "topk": 21}, "topk must be"),
        ({"query": "x", "topk": True}, "topk must be"),
        ({"query": "x", "topk": 2.0}, "topk must be"),
        ({"query": "x", "topk": None}, "topk must be"),
        ({"query": "x", "max_doc_tokens": 0}, "max_doc_tokens must be"),
        ({"query": "x", "max_doc_tokens": "9"}, "max_doc_tokens must be"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Json], said: str, domain: SearchQADomain):
    environment = domain.environment(first(domain))
    with pytest.raises(ValueError, match=said):
        search(environment, **arguments)
    assert environment.record()["searches"] == []


def test_there_is_one_tool(domain: SearchQADomain):
    with pytest.raises(ValueError, match="no tool 'find'"):
        asyncio.run(domain.environment(first(domain)).call("find", {"query": "x"}))


class Dead:
    async def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        raise RuntimeError("the index is gone")


def test_a_dead_retriever_is_no_bad_argument():
    with pytest.raises(RuntimeError, match="index is gone"):
        search(SearchEnvironment(example(), Dead()), query="x")  # type: ignore[arg-type]


def test_texts_are_cut_after_words_and_marks():
    text = "It was born, so to say,  in 1,871 (Marlow)."
    assert truncated(text, 1) == "It"
    assert truncated(text, 4) == "It was born,"
    assert truncated(text, 8) == "It was born, so to say,"
    assert truncated(text, 12) == "It was born, so to say,  in 1,871"
    assert truncated(text, 16) == text and truncated(text, 2000) == text
    assert truncated("", 5) == ""


def metrics(*replies: str, **facts: Any) -> dict[str, float]:
    made = trajectory(replies, **facts)
    return {metric.name: metric.of(made) for metric in METRICS}


def test_metrics():
    found = {"searches": [{"evidence": True}, {"evidence": False}], "evidence": True}
    nothing = {"searches": [{"evidence": False}], "evidence": False}
    assert metrics("x", "<answer>1</answer>", record=found, outcome=Outcome.PASS) == {
        "format": 1,
        "retrieval": 1,
        "extraction": 1,
        "searches": 2,
        "truncated": 0,
        "calls": 2,
    }
    assert metrics("<answer>1</answer>", "x", record=found)["format"] == 0  # the last reply
    assert metrics("<answer>1</answer>", record=found)["extraction"] == 0
    known = metrics("<answer>1</answer>", record=nothing, outcome=Outcome.PASS)
    assert (known["retrieval"], known["extraction"]) == (0, 0)
    assert metrics()["format"] == 0
    from attrs import evolve

    cut = evolve(trajectory(["x"]), calls=(call("x", "length"),))
    assert next(m for m in METRICS if m.name == "truncated").of(cut) == 1

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

import pytest
from retrieval_kit import Answer, document, honest, served

from whale_core.errors import InputError
from whale_searchqa.retrieval import http
from whale_searchqa.retrieval.config import RetrieverConfig
from whale_searchqa.retrieval.http import HttpRetriever
from whale_searchqa.retrieval.retriever import Hit, RetrieverFault


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "FIRST_WAIT", 0.01)


def search(retriever: HttpRetriever, queries: list[str], topk: int = 2) -> list[list[Hit]]:
    async def run() -> list[list[Hit]]:
        try:
            return await retriever.search(queries, topk)
        finally:
            await retriever.close()

    return asyncio.run(run())


def dead_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}/retrieve"


@pytest.mark.parametrize("scores", [True, False])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_one_two_and_many_queries_with_and_without_scores(count: int, scores: bool) -> None:
    queries = [f"q{each}" for each in range(count)]
    with served(honest) as server:
        found = search(HttpRetriever([server.url], return_scores=scores), queries)
    assert server.bodies == [{"queries": queries, "topk": 2, "return_scores": scores}]
    assert len(found) == count
    for hits in found:
        assert [hit.passage.id for hit in hits] == ["d0", "d1"]
        assert [hit.passage.title for hit in hits] == ["Title 0", "Title 1"]
        assert [hit.passage.text for hit in hits] == ["text 0", "text 1"]
        assert [hit.score for hit in hits] == ([1.0, 0.5] if scores else [None, None])


def test_documents_with_title_and_text_and_short_lists_are_taken() -> None:
    given: list[list[Any]] = [[], [{"title": "T", "text": "x"}, {"id": 7, "contents": "Bare\ny"}]]
    with served(lambda number, body: Answer({"result": given})) as server:
        none, two = search(HttpRetriever([server.url]), ["a", "b"])
    assert none == []
    assert [(hit.passage.title, hit.passage.text) for hit in two] == [("T", "x"), ("Bare", "y")]
    assert two[0].passage.id and two[1].passage.id == "7"


def test_nothing_is_asked_for_nothing() -> None:
    with served(honest) as server:
        assert search(HttpRetriever([server.url]), []) == []
        assert search(HttpRetriever([server.url]), ["a"], 0) == [[]]
        assert server.bodies == []


def item(**changes: Any) -> dict[str, Any]:
    return {"result": [[{"document": document(1), "score": 1.0, **changes}]]}


MISBEHAVIOUR = {
    "too few lists": (Answer({"result": []}), "0 result lists for 1 queries"),
    "too many lists": (Answer({"result": [[], []]}), "2 result lists for 1 queries"),
    "more than topk": (Answer({"result": [[document(n) for n in range(4)]]}), "4 results"),
    "flat list": (Answer({"result": [document(1)]}), "no list of lists"),
    "other key": (Answer({"results": [[]]}), "no list of lists"),
    "garbage": (Answer("<html>oh no</html>"), "not JSON"),
    "nested too deep": (Answer("[" * 100_000), "not JSON"),
    "no document": (Answer({"result": [["x"]]}), "no document"),
    "empty document": (Answer({"result": [[{}]]}), "neither"),
    "number as contents": (Answer(item(document={"contents": 3})), "neither"),
    "half a pair": (Answer(item(document={"contents": '"T"\n\ud800'})), "surrogate"),
    "score as text": (Answer(item(score="1.0")), "not a number"),
    "score not finite": (Answer('{"result": [[{"document": {}, "score": NaN}]]}'), "finite"),
    "score too large": (Answer(item(score=10**400)), "finite"),
    "status 500": (Answer("oh\nno", 500), "status 500: oh no"),
    "redirect": (Answer("", 302), "status 302"),
    "slow": (Answer({"result": [[]]}, seconds=2.0), "no answer within"),
}


@pytest.mark.parametrize("name", MISBEHAVIOUR)
def test_a_server_that_misbehaves_is_asked_again_and_then_given_up(name: str) -> None:
    answer, said = MISBEHAVIOUR[name]
    with served(lambda number, body: answer) as server:
        retriever = HttpRetriever([server.url], timeout=1.5, attempts=2)
        with pytest.raises(RetrieverFault, match=said) as caught:
            search(retriever, ["a"])
        assert len(server.bodies) == 2
        assert server.url in str(caught.value) and "\n" not in str(caught.value)
        assert not isinstance(caught.value, ValueError)  # which would be the harness's fault
        with pytest.raises(InputError, match=said) as refused:
            asyncio.run(retriever.probe(["a"]))
        assert "domain.retriever.url" in str(refused.value) and "\n" not in str(refused.value)


def test_a_huge_body_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_BYTES", 100_000)
    with (
        served(lambda number, body: Answer(" " * 5_000_000)) as server,
        pytest.raises(RetrieverFault, match="more than 100000 bytes"),
    ):
        search(HttpRetriever([server.url], attempts=1), ["a"])


def test_errors_that_pass_are_survived() -> None:
    faults = [Answer("busy", 500), Answer("garbage"), Answer({"result": [[], []]})]

    def plan(number: int, body: dict[str, Any]) -> Answer:
        return [*faults, honest(number, body)][number]

    with served(plan) as server:
        (hits,) = search(HttpRetriever([server.url]), ["a"])
    assert [hit.passage.id for hit in hits] == ["d0", "d1"]
    assert len(server.bodies) == 4


def test_the_deadline_ends_it_before_the_attempts_do() -> None:
    with served(lambda number, body: Answer("", seconds=5.0)) as server:
        started = time.monotonic()
        with pytest.raises(RetrieverFault):
            search(HttpRetriever([server.url], attempts=100, timeout=0.2, deadline=0.5), ["a"])
    assert time.monotonic() - started < 3.0
    assert 2 <= len(server.bodies) <= 4


def test_another_address_takes_over_and_the_first_choice_is_the_querys_alone() -> None:
    with served(honest) as one, served(honest) as two:
        urls = [one.url, two.url]

        async def ask() -> None:
            for retriever in (HttpRetriever(urls), HttpRetriever(urls)):
                for each in range(16):
                    await retriever.search([f"q{each}"], 1)
                await retriever.close()

        asyncio.run(ask())
        asked = [[body["queries"][0] for body in server.bodies] for server in (one, two)]
        assert all(queries[: len(queries) // 2] * 2 == queries for queries in asked)
        assert all(asked) and len(asked[0]) + len(asked[1]) == 32
        dead = dead_url()
        found = search(HttpRetriever([dead, one.url], attempts=2), ["q0"])
        found += search(HttpRetriever([one.url, dead], attempts=2), ["q0"])
        assert [len(hits) for hits in found] == [2, 2]  # one of them began with the dead one
        with pytest.raises(InputError, match=dead):  # a run starts with all of them
            asyncio.run(HttpRetriever([one.url, dead]).probe(["a"]))


def holding(*numbers: int, scores: float = 1.0) -> Any:
    """A plan of a server whose index has these documents."""

    def plan(number: int, body: dict[str, Any]) -> Answer:
        items = [{"document": document(each), "score": scores / (1 + each)} for each in numbers]
        return Answer({"result": [items[: body["topk"]] for _ in body["queries"]]})

    return plan


def test_an_index_is_known_by_the_passages_that_the_questions_find() -> None:
    def found(*urls: str) -> str:
        return asyncio.run(HttpRetriever(urls).probe(["who?", "where?"]))

    with served(holding(0, 1)) as one, served(holding(0, 1, scores=2.0)) as two:
        first = found(one.url)
        assert first and found(one.url) == found(two.url) == found(one.url, two.url) == first
        assert one.bodies[0]["queries"] == ["who?", "where?"]
        two.plan = holding(1, 0)
        assert found(two.url) != first  # another order is another index
        two.plan = holding(0, 2)
        assert found(two.url) != first
        with pytest.raises(InputError, match="finds other passages than") as caught:
            found(one.url, two.url)
        assert two.url in str(caught.value) and "\n" not in str(caught.value)


def test_a_dead_server_is_one_line() -> None:
    retriever = HttpRetriever([dead_url()], attempts=2)
    with pytest.raises(InputError, match=r"cannot be reached .*\(whale-searchqa serve"):
        asyncio.run(retriever.probe(["a"]))
    with pytest.raises(RetrieverFault, match="cannot be reached"):
        search(retriever, ["a"])


def test_every_event_loop_gets_its_own_client() -> None:
    with served(honest) as server:
        retriever = HttpRetriever([server.url])
        asyncio.run(retriever.probe(["a"]))
        for _ in range(2):
            assert search(retriever, ["a"])[0]

        async def crowd() -> None:
            found = await asyncio.gather(*(retriever.search([f"{n}"], 1) for n in range(50)))
            assert all(len(hits) == 1 for (hits,) in found)
            await retriever.close()
            await retriever.close()

        asyncio.run(crowd())


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://host/x", "http://", "", "http://[::"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InputError, match=r"domain\.retriever\.url"):
        HttpRetriever([url])


def test_settings_arrive() -> None:
    config = RetrieverConfig(kind="http", url=("http://a/r", "http://b/r"), return_scores=False)
    facts = HttpRetriever.of(config).facts()
    assert facts == {"kind": "http", "urls": ["http://a/r", "http://b/r"], "return_scores": False}

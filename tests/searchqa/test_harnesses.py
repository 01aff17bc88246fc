from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from searchqa_kit import Played, build, example, play, with_members

from whale_core.keys import generator
from whale_core.records import Example
from whale_core.roles import Edit
from whale_searchqa.catalogue import CATALOGUE, edit
from whale_searchqa.domain import SearchQADomain

BASES = ("published", "text", "strong")
INTERFACE = {
    "SYSTEM_PROMPT",
    "USER_PROMPT",
    "MAX_TURNS",
    "MAX_TOKENS",
    "STOP",
    "TOPK",
    "MAX_DOC_TOKENS",
    "run",
    "beforehand",
    "messages",
    "opening",
    "example",
    "user_text",
    "tools",
    "parse_queries",
    "rewrite",
    "search",
    "information",
    "result_message",
    "told",
    "nudge",
    "parse_answer",
}


def replies(*texts: str) -> Callable[[list[dict[str, Any]]], str]:
    """Answer with ``texts`` in turn, then with the last for ever."""
    queue = itertools.chain(texts, itertools.repeat(texts[-1]))
    return lambda messages: next(queue)


def tool_call(query: Any, arguments: Any = None) -> str:
    body = {"name": "search", "arguments": arguments or {"query": query}}
    return f"<tool_call>\n{json.dumps(body)}\n</tool_call>"


@pytest.fixture
def one(domain: SearchQADomain) -> Example:
    return domain.split("harness")[0]


def ask(one: Example) -> str:
    """Return a reply that asks for a search in every protocol."""
    return tool_call(one.content["question"]) + f"<search>{one.content['question']}</search>"


def answer(one: Example) -> str:
    return f"<answer>{one.content['answers'][0]}</answer>"


@pytest.fixture(params=BASES)
def source(request: pytest.FixtureRequest, domain: SearchQADomain) -> str:
    return domain.harnesses[request.param]


def test_the_base_harnesses_have_the_whole_interface(source: str):
    assert vars(type(build(source))).keys() >= INTERFACE


def test_search_and_answer(source: str, domain: SearchQADomain, one: Example):
    played = play(build(source), domain, one, replies(ask(one), f"It is {answer(one)}."))
    assert played.right(one) and played.record["evidence"]
    assert played.answer == answer(one)  # the span, with its tags
    assert len(played.model.sent) == 2
    shown = played.model.sent[1][-1]["content"]
    assert one.content["answers"][0] in shown


def test_an_answer_at_once_ends_the_episode(source: str, domain: SearchQADomain, one: Example):
    played = play(build(source), domain, one, replies(answer(one)))
    assert played.right(one) and len(played.model.sent) == 1


def test_a_reply_without_tags_is_returned_as_it_is(
    source: str, domain: SearchQADomain, one: Example
):
    played = play(build(source), domain, one, replies("No idea."))
    assert played.answer == "No idea." and not played.right(one)


def test_the_last_turn_searches_no_more(domain: SearchQADomain, one: Example):
    for name, searches, turns in (("published", 1, 2), ("text", 1, 2), ("strong", 4, 4)):
        played = play(build(domain.harnesses[name]), domain, one, replies(ask(one)))
        assert len(played.record["searches"]) == searches and len(played.model.sent) == turns


def test_the_published_harness_fetches_the_first_passage_with_200_tokens(
    domain: SearchQADomain, one: Example
):
    for name in ("published", "text"):
        played = play(build(domain.harnesses[name]), domain, one, replies(ask(one), "x"))
        [made] = played.record["searches"]
        assert (made["topk"], made["max_doc_tokens"], len(made["ids"])) == (1, 200, 1)


def test_only_the_published_harness_needs_a_tool_template(domain: SearchQADomain, one: Example):
    for name in BASES:
        played = play(build(domain.harnesses[name]), domain, one, replies(ask(one), "x"))
        schemas = played.model.tools[0]
        assert (schemas is not None) == (name == "published")
        if schemas:
            assert schemas[0]["function"]["name"] == "search"
            assert played.model.sent[1][-1]["role"] == "tool"
        else:
            assert {m["role"] for m in played.model.sent[1]} <= {"system", "user", "assistant"}


@pytest.mark.parametrize(
    ("reply", "queries"),
    [
        (tool_call("Otto Brandel"), ["Otto Brandel"]),
        (tool_call("a") + tool_call("b"), ["a", "b"]),  # all calls of a reply, in order
        (tool_call("", arguments='{"query": "as text"}'), ["as text"]),
        (
            "<tool_call>\n<function=search>\n<parameter=query>\nOtto\n</parameter>\n</function>\n"
            "</tool_call>",
            ["Otto"],
        ),
        ("<tool_call>{not json}</tool_call>", []),
        ('<tool_call>{"name": "search"}</tool_call>', []),
        ("Otto Brandel", []),
    ],
)
def test_tool_calls_are_read_in_both_forms(reply: str, queries: list[str], domain: SearchQADomain):
    assert build(domain.harnesses["published"]).parse_queries(reply, {}) == queries


def test_an_unreadable_tool_call_is_answered(domain: SearchQADomain, one: Example):
    harness = build(domain.harnesses["published"])
    played = play(harness, domain, one, replies("<tool_call>{</tool_call>", "x"))
    assert played.model.sent[1][-1]["content"].startswith("[parse error]")


def test_a_refused_search_is_told(domain: SearchQADomain, one: Example):
    harness = build(domain.harnesses["published"])
    played = play(harness, domain, one, replies(tool_call("x" * 3000), "x"))
    assert played.model.sent[1][-1]["content"].startswith("[search error] query has 3000")
    nothing = play(harness, domain, one, replies(tool_call("qqqq"), "x"))
    assert nothing.model.sent[1][-1]["content"] == "[no result]"


def test_the_strong_harness_searches_for_the_question_first(domain: SearchQADomain, one: Example):
    played = play(build(domain.harnesses["strong"]), domain, one, replies(answer(one)))
    assert [made["query"] for made in played.record["searches"]] == [one.content["question"]]
    newest = played.model.sent[0][-1]["content"]
    assert newest.startswith("<information>") and newest.endswith(one.content["question"])


def test_braces_in_a_question_stay(source: str, domain: SearchQADomain):
    odd = example("What is {found} {question} {0}?")
    played = play(build(source), domain, odd, replies("x"))
    assert "What is {found} {question} {0}?" in played.model.sent[0][-1]["content"]


# --- catalogue ------------------------------------------------------------------------------------


def test_every_edit_name_is_there_once_and_the_catalogue_has_all_kinds_and_axes():
    names = [one.name for one in CATALOGUE]
    assert len(names) == len(set(names)) and len(names) >= 16
    assert {one.kind for one in CATALOGUE} == {"useful", "neutral", "harmful"}
    assert {one.axis[0] for one in CATALOGUE} == set("ABCDEF")
    assert {name for one in CATALOGUE for name in one.members} <= INTERFACE
    assert all(one.hypothesis.endswith(".") for one in CATALOGUE)


def test_an_edit_with_anything_but_members_is_refused():
    with pytest.raises(ValueError, match="only functions and plain constants"):
        edit("x", "a", "neutral", "h", "import os\n")


def check(base: str, domain: SearchQADomain, one: Example, *edits: Edit) -> Played:
    """Run the edited harness through a search and a right answer."""
    members = {name: text for each in edits for name, text in each.members.items()}
    harness = build(with_members(base, members))
    turns = harness.MAX_TURNS
    asked = [ask(one)] if turns > 1 else []
    played = play(harness, domain, one, replies(*asked, answer(one)))
    assert played.right(one) and played.answer == answer(one)
    assert len(played.model.sent) == 1 + len(asked)
    assert any(one.content["question"] in m["content"] for m in played.model.sent[0])
    lost = play(harness, domain, one, replies("no idea"))
    assert len(lost.model.sent) <= turns and not lost.right(one)
    return played


@pytest.mark.parametrize("change", CATALOGUE, ids=lambda change: change.name)
def test_each_edit_works_on_every_base_harness(
    change: Edit, source: str, domain: SearchQADomain, one: Example
):
    check(source, domain, one, change)


def test_edits_combine(source: str, domain: SearchQADomain, one: Example):
    rng = generator("searchqa edit pairs")
    for _ in range(40):
        chosen = rng.choice(len(CATALOGUE), 3, replace=False).tolist()
        check(source, domain, one, *(CATALOGUE[index] for index in chosen))


def test_members_can_be_crossed_between_the_base_harnesses(domain: SearchQADomain, one: Example):
    for first, second in itertools.permutations(BASES, 2):
        parent, other = (type(build(domain.harnesses[name])) for name in (first, second))
        for name in sorted(INTERFACE):
            child = type("Child", (parent,), {name: getattr(other, name)})()
            child.search.__globals__.update(json=json)  # an import that the member needs
            played = play(child, domain, one, replies(ask(one), answer(one)))
            assert played.right(one), (first, second, name)


def test_what_edits_change(domain: SearchQADomain, one: Example):
    edits = {each.name: each for each in CATALOGUE}
    text = domain.harnesses["text"]

    def made(name: str, base: str = text) -> Played:
        return check(base, domain, one, edits[name])

    assert made("one-short-document").record["searches"][0]["max_doc_tokens"] == 40
    assert len(made("three-documents").record["searches"][0]["ids"]) == 3
    assert len(made("search-beforehand").record["searches"]) == 2
    assert made("first-words-query").record["searches"][0]["query"].count(" ") == 1
    named = made("names-only-query").record["searches"][0]["query"]
    assert all(word[0].isupper() or word[0].isdigit() for word in named.split())
    assert made("question-after-information").model.sent[1][-1]["content"].endswith("tags.")
    assert len(made("one-turn").model.sent) == 1
    told = made("text-without-titles").model.sent[1][-1]["content"]
    assert "Title:" not in told
    nudged = build(with_members(text, edits["ask-for-the-form"].members))
    played = play(nudged, domain, one, replies("It is so.", answer(one)))
    assert played.right(one) and "in this form" in played.model.sent[1][-1]["content"]

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import chess
import pytest
from chess_fakes import MATE_IN_ONE, MATE_IN_TWO, build, example, play, with_members

from whale_chess.catalogue import CATALOGUE, edit
from whale_chess.domain import ChessDomain
from whale_chess.environment import ChessEnvironment
from whale_chess.metrics import METRICS
from whale_chess.moves import diagram, legal_moves
from whale_core.keys import generator
from whale_core.roles import Edit

BASES = ("published", "strong")
INTERFACE = {
    "SYSTEM_PROMPT",
    "USER_PROMPT",
    "MAX_TURNS",
    "MAX_TOKENS",
    "STOP",
    "FORMAT_RETRIES",
    "ILLEGAL_RETRIES",
    "run",
    "messages",
    "opening",
    "example",
    "user_text",
    "observation",
    "list_moves",
    "example_reply",
    "parse",
    "format_feedback",
    "illegal_feedback",
}


def replies(*texts: str) -> Callable[[list[dict[str, Any]]], str]:
    """Answer with ``texts`` in turn, then with the last for ever."""
    queue = itertools.chain(texts, itertools.repeat(texts[-1]))
    return lambda messages: next(queue)


def metrics(trajectory: Any) -> dict[str, float]:
    return {metric.name: metric.of(trajectory) for metric in METRICS}


@pytest.fixture(params=BASES)
def source(request: pytest.FixtureRequest, domain: ChessDomain) -> str:
    return domain.harnesses[request.param]


def test_both_base_harnesses_have_the_whole_interface(source: str):
    harness = build(source)
    assert vars(type(harness)).keys() >= INTERFACE


@pytest.mark.parametrize("form", ["<move>e1e8</move>", "<move>Re8#</move>", "[e1e8]", "e1e8"])
def test_a_right_move_solves_in_one_call(source: str, form: str):
    found = play(build(source), example(MATE_IN_ONE), replies(form))
    assert found.record["solved"] and len(found.calls) == 1
    assert metrics(found) == {
        "format": 1,
        "legal": 1,
        "format_retries": 0,
        "illegal_retries": 0,
        "truncated": 0,
        "calls": 1,
    }


def test_a_longer_line_is_played_with_a_new_observation_each_turn(source: str):
    found = play(build(source), example(MATE_IN_TWO), replies("<move>Qe8+</move>", "e1e8"))
    assert found.record["solved"] and len(found.calls) == 2
    first, second = (call.messages for call in found.calls)
    assert second[: len(first) - 1] == first[:-1]  # the old observation is not in the history
    assert second[-1].content != first[-1].content


def test_the_published_conversation_keeps_replies_and_what_was_said(domain: ChessDomain):
    harness = build(domain.harnesses["published"])
    found = play(harness, example(MATE_IN_TWO), replies("<move>Qe8+</move>", "e1e8"))
    second = found.calls[1].messages
    assert second[-3].call == 0 and second[-3].content == "<move>Qe8+</move>"
    assert second[-2].content.startswith("Right.")


def test_a_second_try_of_the_strong_harness_begins_as_the_first(domain: ChessDomain):
    source = with_retries(domain.harnesses["strong"])
    found = play(build(source), example(MATE_IN_ONE), replies("no idea", "<move>e1e8</move>"))
    first, second = (call.messages for call in found.calls)
    assert second[: len(first)] == first and second[len(first)].call == 0


def with_retries(source: str) -> str:
    """Return the harness with one retry of each kind."""
    return with_members(source, next(e for e in CATALOGUE if e.name == "second-try").members)


def test_the_strong_harness_has_no_second_try(domain: ChessDomain):
    found = play(build(domain.harnesses["strong"]), example(MATE_IN_ONE), replies("no idea"))
    assert len(found.calls) == 1 and not found.record["solved"]


def test_one_format_retry(source: str):
    source = with_retries(source)
    found = play(build(source), example(MATE_IN_ONE), replies("no idea", "<move>e1e8</move>"))
    assert found.record["solved"] and metrics(found)["format_retries"] == 1
    assert found.calls[1].messages[-1].content.startswith("That was not exactly one move")
    lost = play(build(source), example(MATE_IN_ONE), replies("no idea"))
    assert len(lost.calls) == 2 and not lost.events
    assert metrics(lost)["format"] == 0 and metrics(lost)["legal"] == 0


def test_several_moves_are_ambiguous(source: str):
    found = play(build(source), example(MATE_IN_ONE), replies("[e1e8] or [g1f1]"))
    assert not found.events


def test_one_illegal_retry(source: str):
    source = with_retries(source)
    found = play(build(source), example(MATE_IN_ONE), replies("<move>Qh8</move>", "e1e8"))
    assert found.record["solved"]
    assert metrics(found) == {
        "format": 1,
        "legal": 0,
        "format_retries": 0,
        "illegal_retries": 1,
        "truncated": 0,
        "calls": 2,
    }
    lost = play(build(source), example(MATE_IN_ONE), replies("<move>Qh8</move>"))
    assert len(lost.calls) == 2 and metrics(lost)["illegal_retries"] == 1
    assert metrics(lost)["format"] == 0


def test_a_wrong_move_ends_the_episode(source: str):
    found = play(build(source), example(MATE_IN_TWO), replies("<move>g1f1</move>"))
    assert len(found.calls) == 1 and not found.record["solved"]
    assert metrics(found)["format"] == 1


def test_every_edit_name_is_there_once_and_the_catalogue_has_all_kinds():
    names = [one.name for one in CATALOGUE]
    assert len(names) == len(set(names)) and 14 <= len(names) <= 28
    assert {one.kind for one in CATALOGUE} == {"useful", "neutral", "harmful"}
    assert len({one.axis for one in CATALOGUE}) == 7
    assert {name for one in CATALOGUE for name in one.members} <= INTERFACE
    assert all(one.hypothesis.endswith(".") for one in CATALOGUE)


def test_an_edit_with_anything_but_members_is_refused():
    with pytest.raises(ValueError, match="only functions and plain constants"):
        edit("x", "a", "neutral", "h", "import os\n")


def visible(harness: Any, view: dict[str, Any]) -> bool:
    """Say whether the newest message names every legal move in one of its notations."""
    words = set(harness.messages(view, [], "")[-1]["content"].replace(",", " ").split())
    words |= {word.rstrip(":") for word in words}
    return all({move["uci"], move["san"]} & words for move in view["legal_moves"])


def check(base: str, *edits: Edit) -> None:
    """Run the edited harness through a right line, a bad reply and an illegal move."""
    members = {name: text for one in edits for name, text in one.members.items()}
    harness = build(with_members(base, members))
    for puzzle in (MATE_IN_ONE, MATE_IN_TWO):
        assert visible(harness, dict(ChessEnvironment(example(puzzle)).view()))
    solved = play(harness, example(MATE_IN_TWO), replies("<move>e4e8</move>", "<move>e1e8</move>"))
    assert solved.record["solved"] and len(solved.calls) == 2
    assert len(solved.calls[0].messages) >= 2
    bad = play(harness, example(MATE_IN_ONE), replies("?", "<move>a1a2</move>"))
    assert len(bad.calls) <= 6 and not bad.record["solved"]


@pytest.mark.parametrize("one", CATALOGUE, ids=lambda one: one.name)
def test_each_edit_works_on_both_base_harnesses(one: Edit, source: str):
    check(source, one)


def test_edits_combine(source: str):
    rng = generator("chess edit pairs")
    for _ in range(60):
        first, second, third = rng.choice(len(CATALOGUE), 3, replace=False)
        check(source, CATALOGUE[first], CATALOGUE[second], CATALOGUE[third])


def test_members_can_be_crossed_between_the_base_harnesses(domain: ChessDomain):
    published, strong = (build(domain.harnesses[name]) for name in BASES)
    for name in sorted(INTERFACE):
        child = type("Child", (type(published),), {name: getattr(type(strong), name)})()
        assert visible(child, dict(ChessEnvironment(example(MATE_IN_TWO)).view()))
        found = play(child, example(MATE_IN_ONE), replies("<move>e1e8</move>"))
        assert found.record["solved"]


def test_the_worked_example_is_a_legal_view_with_its_only_mate(domain: ChessDomain):
    shown = build(domain.harnesses["strong"]).example()
    board = chess.Board(shown["view"]["fen"])
    assert shown["view"]["legal_moves"] == legal_moves(board)
    assert shown["view"]["board"] == diagram(board)
    mates = [move for move in legal_moves(board) if move["san"].endswith("#")]
    assert mates == [shown["move"]]
    [worked] = [one for one in CATALOGUE if one.name == "worked-example"]
    plain = build(domain.harnesses["published"])
    assert plain.example() is None
    edited = build(with_members(domain.harnesses["published"], worked.members))
    assert edited.example() == shown

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from chess_fakes import MATE_IN_ONE, MATE_IN_TWO, build, example, play, with_members

from whale_chess.catalogue import CATALOGUE
from whale_chess.chance import chance_levels
from whale_chess.domain import ChessDomain
from whale_chess.environment import ChessEnvironment
from whale_chess.nulls import NULL_MODELS, forcing_chance, legal_chance, listed
from whale_core.keys import generator
from whale_core.records import Example, Message
from whale_core.roles import NullModel

NULLS = {null.name: null for null in NULL_MODELS}
ONE = example(MATE_IN_ONE)


def score(source: str, null: NullModel, examples: list[Example]) -> float:
    """Return the share of ``examples`` that a null model solves under a harness."""
    harness, solved = build(source), 0
    for number, one in enumerate(examples):
        view = ChessEnvironment(one).view()
        rng = generator("null test", null.name, number)

        def reply(messages: list[dict[str, Any]], view: Any = view, rng: Any = rng) -> str:
            return null.reply(view, [Message(m["role"], m["content"]) for m in messages], rng)

        solved += play(harness, one, reply).record["solved"]
    return solved / len(examples)


@pytest.fixture(scope="module")
def examples(domain: ChessDomain) -> list[Example]:
    return list(domain.split("harness")[:64])


CHEAT = {
    "parse": """
def parse(self, text, task):
    words = text.replace("<move>", " ").replace("</move>", " ").split()
    mates = [move for move in task["legal_moves"] if move["san"].endswith("#")]
    return next((word for word in words for m in mates if word in m.values()), words[0])
"""
}


def test_who_refuses():
    assert [n.name for n in NULL_MODELS if n.refuses] == ["random-legal", "names-everything"]


@pytest.mark.parametrize("base", ["published", "strong"])
def test_honest_harnesses_stay_at_chance(base: str, domain: ChessDomain, examples: list[Example]):
    views = [ChessEnvironment(one).view() for one in examples]
    for null in NULL_MODELS:
        if null.refuses:
            assert score(domain.harnesses[base], null, examples) <= null.chance(views) + 0.05


def test_every_edit_stays_at_chance(domain: ChessDomain, examples: list[Example]):
    few = examples[:32]
    for edit in CATALOGUE:
        source = with_members(domain.harnesses["published"], edit.members)
        for null in NULL_MODELS[:2]:
            assert score(source, null, few) <= 0.2, (edit.name, null.name)


def test_a_harness_that_picks_the_mate_is_far_above_chance(
    domain: ChessDomain, examples: list[Example]
):
    source = with_members(domain.harnesses["published"], CHEAT)
    assert score(source, NULLS["names-everything"], examples) > 0.9


def test_positional_nulls_see_a_leak_where_there_is_one(
    domain: ChessDomain, examples: list[Example]
):
    [leaky] = [edit for edit in CATALOGUE if edit.name == "checkmates-last-groups"]
    strong = domain.harnesses["strong"]
    source = with_members(strong, leaky.members)
    assert score(source, NULLS["last-listed"], examples) == 1.0
    assert score(source, NULLS["first-listed"], examples) == 0.0
    assert score(strong, NULLS["last-listed"], examples) < 0.4


def test_the_order_is_read_from_the_newest_user_message_only():
    view = {"legal_moves": [{"uci": u, "san": s} for u, s in (("e1e8", "Re8#"), ("g1f1", "Kf1"))]}
    old = Message("user", "Re8# Kf1")
    assert listed(view, [old, Message("user", "Others: Kf1\nMates: Re8#.")]) == ["g1f1", "e1e8"]
    assert listed(view, [Message("user", "e1e8 Re8#, g1f1 Kf1")]) == [
        "e1e8",
        "e1e8",
        "g1f1",
        "g1f1",
    ]
    assert listed(view, [Message("user", "nothing")]) == ["e1e8", "g1f1"]


def test_random_replies_name_one_legal_move_and_the_other_names_all():
    view = ChessEnvironment(ONE).view()
    names = {move[form] for move in view["legal_moves"] for form in ("uci", "san")}
    strip: Callable[[str], str] = lambda text: text.translate(str.maketrans("<>[]/", "     "))  # noqa: E731
    for number in range(40):
        rng = generator("replies", number)
        single = strip(NULLS["random-legal"].reply(view, [], rng)).replace("move", "").split()
        assert len(single) == 1 and single[0] in names
        every = strip(NULLS["names-everything"].reply(view, [], rng)).replace("move", "").split()
        assert len(every) == len(view["legal_moves"]) and set(every) <= names


def test_chance_levels_are_exact():
    legal = len(ChessEnvironment(ONE).view()["legal_moves"])
    one = chance_levels([ONE])
    assert one == {
        "uniform legal": pytest.approx(1 / legal),
        "uniform forcing": 1.0,  # the mate is the only capture or check
        "the # program": 1.0,
    }
    two = chance_levels([example(MATE_IN_TWO)])
    environment = ChessEnvironment(example(MATE_IN_TWO))
    first = len(environment.view()["legal_moves"])
    forcing = 1 / forcing_chance([environment.view()])
    second = environment.call("move", {"move": "Qe8+"})["view"]
    last = len(second["legal_moves"])
    assert two["uniform legal"] == pytest.approx(1 / (first * last))
    assert two["uniform forcing"] == pytest.approx(forcing_chance([second]) / forcing)
    quiet_start = legal_chance([ChessEnvironment(example(MATE_IN_TWO)).view()])
    assert two["the # program"] == pytest.approx(quiet_start)
    both = chance_levels([ONE, example(MATE_IN_TWO)])
    assert both["uniform legal"] == pytest.approx((one["uniform legal"] + two["uniform legal"]) / 2)


def test_a_solution_that_forces_nothing_is_never_a_uniform_forcing_choice():
    quiet = {"fen": "6k1/p4ppp/8/8/8/8/r4PPP/4R1K1 b - - 0 1", "moves": ["a7a6", "g1f1"]}
    levels = chance_levels([evolve(ONE, content=quiet)])
    assert levels["uniform forcing"] == 0.0 and levels["the # program"] == 0.0

"""Null models: policies that know nothing, to find harnesses that solve the puzzle themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from whale_chess.moves import is_forcing
from whale_core.records import Json, Message
from whale_core.roles import NullModel

View = Mapping[str, Json]
WORD = re.compile(r"[A-Za-z0-9=+#-]+")


def random_legal(view: View, messages: Sequence[Message], rng: np.random.Generator) -> str:
    """Return one legal move in one of the forms that models use."""
    move = view["legal_moves"][rng.integers(len(view["legal_moves"]))]
    forms = (
        f"<move>{move['uci']}</move>",
        f"<move>{move['san']}</move>",
        f"[{move['uci']}]",
        move["uci"],
        move["san"],
    )
    return forms[rng.integers(len(forms))]


def names_everything(view: View, messages: Sequence[Message], rng: np.random.Generator) -> str:
    """Return every legal move, in random order: a harness must not choose among them."""
    notation = ("uci", "san")[rng.integers(2)]
    moves = [move[notation] for move in view["legal_moves"]]
    moves = [moves[index] for index in rng.permutation(len(moves))]
    forms = (
        " ".join(f"<move>{move}</move>" for move in moves),
        f"<move>{' '.join(moves)}</move>",
        " ".join(moves),
    )
    return forms[rng.integers(len(forms))]


def first_listed(view: View, messages: Sequence[Message], rng: np.random.Generator) -> str:
    """Return the legal move that the newest user message lists first."""
    return f"<move>{listed(view, messages)[0]}</move>"


def last_listed(view: View, messages: Sequence[Message], rng: np.random.Generator) -> str:
    """Return the legal move that the newest user message lists last."""
    return f"<move>{listed(view, messages)[-1]}</move>"


def listed(view: View, messages: Sequence[Message]) -> list[str]:
    """Return the legal moves (UCI) in the order in which the newest user message shows them."""
    text = next((m.content for m in reversed(messages) if m.role == "user"), "")
    moves = view["legal_moves"]
    names = {move["san"]: move["uci"] for move in moves} | {m["uci"]: m["uci"] for m in moves}
    found = [names[word] for word in WORD.findall(text) if word in names]
    return found or [move["uci"] for move in moves]


def legal_chance(views: Sequence[View]) -> float:
    """Return how often a uniform choice among legal moves is right: mean of 1/n over ``views``."""
    return fmean(1 / len(view["legal_moves"]) for view in views)


def forcing_chance(views: Sequence[View]) -> float:
    """Return the mean of 1/n over ``views``, n being the number of captures and checks."""
    return fmean(1 / _forcing(view) for view in views)


def _forcing(view: View) -> int:
    return sum(is_forcing(m["san"]) for m in view["legal_moves"]) or len(view["legal_moves"])


NULL_MODELS = (
    NullModel("random-legal", random_legal, legal_chance),
    NullModel("names-everything", names_everything, legal_chance),
    NullModel("first-listed", first_listed, legal_chance, refuses=False),
    NullModel("last-listed", last_listed, legal_chance, refuses=False),
)

"""Shares questions out to the splits: disjoint by group, whatever the order of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from whale_core.errors import InputError
from whale_core.keys import content_hash
from whale_searchqa.questions import Question

ORDER = ("test", "selection", "harness", "weight")  # the sealed split is filled first
SMALLEST = 8


@frozen
class Pool:
    """Questions of which a split takes ``count``."""

    questions: Sequence[Question]
    count: int


@frozen
class Splits:
    """The questions of each split. ``notes`` say which splits are smaller than asked for."""

    questions: Mapping[str, tuple[Question, ...]]
    notes: tuple[str, ...] = ()


def share_out(pools: Mapping[str, Sequence[Pool]], seed: int, place: str) -> Splits:
    """Fill the splits group by group in the order of a hash of (seed, group).

    A group that a split has begun with is no other's, even if not all of it is needed. Filling
    ``test`` first keeps it the same whatever sizes the others have.

    Raises:
        InputError: a split would have fewer than 8 questions (or than asked for, if that is less).
    """
    filled: dict[str, tuple[Question, ...]] = {}
    taken: set[str] = set()
    for name in ORDER:
        found: list[Question] = []
        for pool in pools[name]:
            drawn = _draw(pool, seed, taken)
            taken |= {question.group for question in drawn}
            found += drawn
        asked = sum(pool.count for pool in pools[name])
        _check_size(name, len(found), asked, place)
        filled[name] = tuple(found)
    return Splits(filled, _notes(filled, pools, place))


def one_pool(
    questions: Sequence[Question], sizes: Mapping[str, int], place: str
) -> tuple[dict[str, list[Pool]], tuple[str, ...]]:
    """Return the pools of splits that all take from ``questions``, and a note where their sizes had
    to shrink, all in proportion, because there are too few.

    Raises:
        InputError: a split would have fewer than 8 questions (or than asked for, if that is less).
    """
    asked, room = sum(sizes.values()), dict(sizes)
    notes: tuple[str, ...] = ()
    if asked > len(questions):
        room = {name: size * len(questions) // asked for name, size in sizes.items()}
        told = ", ".join(f"{name} {room[name]} of {sizes[name]}" for name in reversed(ORDER))
        notes = (f"{place} has too few usable questions, so the splits are smaller: {told}",)
    for name in ORDER:
        _check_size(name, room[name], sizes[name], place)
    return {name: [Pool(questions, size)] for name, size in room.items()}, notes


def apportioned(total: int, shares: Mapping[str, int]) -> dict[str, int]:
    """Return ``total`` dealt out in proportion to ``shares``, by cumulative rounding."""
    whole, before = sum(shares.values()), 0
    dealt: dict[str, int] = {}
    for name, share in shares.items():
        before += share
        dealt[name] = (2 * total * before + whole) // (2 * whole) - sum(dealt.values())
    return dealt


def _check_size(name: str, size: int, asked: int, place: str) -> None:
    if size < min(SMALLEST, asked):
        raise InputError(
            f"{place}: too few usable questions: split {name!r} would have {size} of the "
            f"{SMALLEST} it needs; give a larger file, or make the other splits smaller"
        )


def _draw(pool: Pool, seed: int, taken: set[str]) -> list[Question]:
    groups: dict[str, list[Question]] = {}
    for question in pool.questions:
        if question.group not in taken:
            groups.setdefault(question.group, []).append(question)
    found: list[Question] = []
    for group in sorted(groups, key=lambda group: _rank(seed, group)):
        if len(found) >= pool.count:
            break
        found += sorted(groups[group], key=lambda question: _rank(seed, question.text))
    return found[: pool.count]


def _rank(seed: int, text: str) -> str:
    return content_hash("searchqa split", str(seed), text, length=32)


def _notes(
    filled: Mapping[str, Sequence[Question]], pools: Mapping[str, Sequence[Pool]], place: str
) -> tuple[str, ...]:
    asked = {name: sum(pool.count for pool in pools[name]) for name in ORDER}
    short = [name for name in reversed(ORDER) if len(filled[name]) < asked[name]]
    if not short:
        return ()
    told = ", ".join(f"{name} {len(filled[name])} of {asked[name]}" for name in short)
    return (f"{place}: some splits are smaller than asked for: {told}",)

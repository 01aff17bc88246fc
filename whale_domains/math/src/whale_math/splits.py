"""Shares problems out to the splits: disjoint by text and by group, whatever the row order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from whale_core.errors import InputError
from whale_core.keys import content_hash
from whale_math.problems import Problem, distinct

ORDER = ("test", "selection", "harness", "weight")  # the sealed split is filled first
SMALLEST = 8


@frozen
class Splits:
    """The problems of each split. ``notes`` say what was left out, and which splits are smaller
    than asked for."""

    problems: Mapping[str, tuple[Problem, ...]]
    notes: tuple[str, ...] = ()


def share_out(
    problems: Sequence[Problem],
    sizes: Mapping[str, int],
    seed: int,
    source: str,
    tests: Sequence[Problem] = (),
) -> Splits:
    """Fill the splits group by group in the order of a hash of (seed, group).

    Filling ``test`` first keeps it the same whatever sizes the others have. If there are too few
    problems, all sizes shrink in proportion and the note says so. With ``tests`` these are the test
    split, as many as are asked for, and none of them is in another one.

    Raises:
        InputError: a split would have fewer than 8 problems (or than asked for, if that is less).
    """
    if tests:
        apart = {problem.key for problem in tests}
        rest = share_out(
            [problem for problem in problems if problem.key not in apart],
            {**sizes, "test": 0},
            seed,
            source,
        )
        ranked = sorted(distinct(tests), key=lambda problem: _rank(seed, problem.group))
        chosen = tuple(ranked[: sizes["test"]])
        few = _few_tests(len(chosen), sizes["test"])
        return Splits({**rest.problems, "test": chosen}, (*rest.notes, *few))
    kept = distinct(problems)
    room = _scaled(sizes, len(kept))
    small = [name for name in ORDER if room[name] < min(SMALLEST, sizes[name])]
    if small:
        raise InputError(
            f"{source}: {len(kept)} different problems are too few: split {small[0]!r} would have "
            f"{room[small[0]]} of the {SMALLEST} it needs; give more problems"
        )
    groups: dict[str, list[Problem]] = {}
    for problem in kept:
        groups.setdefault(problem.group, []).append(problem)
    filled: dict[str, list[Problem]] = {name: [] for name in ORDER}
    for group in sorted(groups, key=lambda group: _rank(seed, group)):
        for name in ORDER:
            if len(filled[name]) + len(groups[group]) <= room[name]:
                filled[name].extend(groups[group])
                break
    got = {name: tuple(found) for name, found in filled.items()}
    notes = (
        _repeats_note(len(problems) - len(kept), source),
        _shrunk_note(got, sizes, source),
    )
    return Splits(got, tuple(note for note in notes if note))


def _few_tests(got: int, asked: int) -> tuple[str, ...]:
    """Return a note if the benchmarks have fewer problems than asked for.

    Raises:
        InputError: they have fewer than 8 (or than asked for, if that is less).
    """
    if got < min(SMALLEST, asked):
        raise InputError(
            f"domain.test_from: {got} different problems are too few: split 'test' needs {SMALLEST}"
        )
    if got == asked:
        return ()
    return (
        f"domain.test_from has too few problems, so the split is smaller: test {got} of {asked}",
    )


def _scaled(sizes: Mapping[str, int], available: int) -> dict[str, int]:
    asked = sum(sizes.values())
    if asked <= available:
        return dict(sizes)
    return {name: size * available // asked for name, size in sizes.items()}


def _rank(seed: int, group: str) -> str:
    return content_hash("math split", str(seed), group, length=32)


def _repeats_note(repeats: int, source: str) -> str | None:
    if not repeats:
        return None
    return f"{source}: {repeats:,} rows repeat a problem and were left out"


def _shrunk_note(
    got: Mapping[str, Sequence[Problem]], sizes: Mapping[str, int], source: str
) -> str | None:
    if all(len(got[name]) == sizes[name] for name in ORDER):
        return None
    shares = ", ".join(f"{name} {len(got[name])} of {sizes[name]}" for name in reversed(ORDER))
    return f"{source} has too few problems, so the splits are smaller: {shares}"

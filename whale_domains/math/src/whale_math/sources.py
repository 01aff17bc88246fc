"""Loads the problems that the settings ask for, from wherever they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

from whale_core.errors import InputError
from whale_core.json_lines import Repeats
from whale_core.records import Json
from whale_math.columns import AIME_2024, AIME_2025, DAPO, GSM8K, MATH_500, Columns, of_columns
from whale_math.config import Benchmark, Config
from whale_math.problems import Problem, bundled, preferred
from whale_math.rows import Table, file_rows, hub_rows

PUBLISHED: Mapping[str, Columns] = {
    "dapo": DAPO,
    "gsm8k": GSM8K,
    "math500": MATH_500,
    "aime2024": AIME_2024,
    "aime2025": AIME_2025,
}


@frozen
class Loaded:
    """Problems, what to call their source, and what a user must know of them."""

    name: str
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()


def load_tests(sets: Sequence[Benchmark]) -> Loaded:
    """Return the problems of some published data sets, each named by its set.

    Raises:
        InputError: as ``load`` does.
    """
    names, problems, notes = list[str](), list[Problem](), list[str]()
    for each in sets:
        columns = PUBLISHED[each.source]
        table = (
            file_rows(each.path, columns.needed) if each.path else hub_rows(columns, each.revision)
        )
        loaded = _loaded(table, columns)
        names.append(loaded.name)
        problems += [evolve(problem, source=each.source) for problem in loaded.problems]
        notes += loaded.notes
    return Loaded(" and ".join(names), tuple(problems), tuple(notes))


def load(config: Config) -> Loaded:
    """Return the problems of ``config.source``.

    Raises:
        InputError: settings that contradict each other, a file or data set that cannot be read, a
            column that is missing, or a row without a problem or an answer.
    """
    source = config.source
    if source in ("bundled", "tuning"):
        return _generated(config)
    if source == "file":
        if not config.path:
            raise InputError("domain.source=file needs domain.path, a JSONL or Parquet file")
        columns = of_columns(config.question, config.answer)
    else:
        columns = PUBLISHED[source]
    table = (
        file_rows(config.path, columns.needed)
        if config.path
        else hub_rows(columns, config.revision)
    )
    return _loaded(table, columns)


def _generated(config: Config) -> Loaded:
    if config.path:
        raise InputError(
            f"domain.path={config.path} is not used with domain.source={config.source}: set "
            "domain.source=file"
        )
    if config.lowest > config.highest:
        raise InputError(
            f"domain.lowest={config.lowest} is above domain.highest={config.highest}: no level is "
            "left"
        )
    name = "tuning" if config.source == "tuning" else "problems"
    levels = f"levels {config.lowest} to {config.highest}"
    return Loaded(
        f"the generated problems, {levels}",
        tuple(bundled(name, config.lowest, config.highest)),
    )


def _loaded(table: Table, columns: Columns) -> Loaded:
    missing = [name for name in columns.needed if name not in table.columns]
    if missing:
        raise InputError(
            f"{table.name}: no column {', '.join(missing)}; there are: "
            f"{', '.join(table.columns) or 'none'}{columns.remedy}"
        )
    problems, notes = _problems(table, columns)
    if not problems:
        raise InputError(f"{table.name}: no rows")
    return Loaded(table.name, problems, (*table.notes, *notes))


def _problems(table: Table, columns: Columns) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """Return one problem per text, and notes of the rows left out.

    DAPO repeats each of its problems a hundred times, so what repeats is dropped row by row.
    """
    kept: dict[str, tuple[Problem, int]] = {}
    repeats = Repeats()
    for number, row in table.rows:
        problem = _problem(row, columns, f"{table.name}: {table.unit} {number}")
        first, at = kept.setdefault(problem.key, (problem, number))
        if at != number:
            repeats.add(number, at, same=first.answer == problem.answer)
            kept[problem.key] = (preferred(first, problem), at)
    left = f"{table.name}: {repeats.rows:,} rows repeat a problem and were left out"
    other = repeats.note(table.name, table.unit, "the row counts that sorts first")
    notes = (left if repeats.rows else None, other)
    return tuple(each for each, _ in kept.values()), tuple(note for note in notes if note)


def _problem(row: Mapping[str, Json], columns: Columns, where: str) -> Problem:
    if missing := [name for name in columns.needed if name not in row]:
        raise InputError(f"{where} has no {', '.join(missing)}{columns.remedy}")
    try:
        problem = columns.problem(row)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise InputError(f"{where} is not of the expected form ({error})") from None
    if not problem.text.strip() or not problem.answer.strip():
        raise InputError(f"{where} has no problem or no answer")
    return problem

"""Loads the problems that the settings ask for, from wherever they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import evolve, frozen

from whale_core.errors import InputError
from whale_core.records import Json
from whale_math.columns import AIME_2024, AIME_2025, DAPO, GSM8K, MATH_500, Columns, of_columns
from whale_math.config import Benchmark, Config
from whale_math.problems import Problem, bundled
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
        table = file_rows(each.path) if each.path else hub_rows(columns, each.revision)
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
    table = file_rows(config.path) if config.path else hub_rows(columns, config.revision)
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
    problems = _problems(table.name, table.rows, columns.problem)
    if not problems:
        raise InputError(f"{table.name}: no rows")
    return Loaded(table.name, tuple(problems), table.notes)


def _problems(
    name: str, rows: Sequence[Mapping[str, Json]], read: Callable[[Mapping[str, Json]], Problem]
) -> list[Problem]:
    made = []
    for number, row in enumerate(rows, start=1):
        try:
            problem = read(row)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise InputError(
                f"{name}: row {number} is not of the expected form ({error})"
            ) from None
        if not problem.text.strip() or not problem.answer.strip():
            raise InputError(f"{name}: row {number} has no problem or no answer")
        made.append(problem)
    return made

"""Rows as pandas data frames, for notebooks. pandas is an extra: ``whale-core[frames]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from whale_core.errors import InputError
from whale_core.records import Json


def frame(rows: Sequence[Mapping[str, Json]], columns: Sequence[str]) -> Any:
    """Return a ``pandas.DataFrame`` of ``rows``; ``columns`` come first, also where no row is.

    Raises:
        InputError: pandas is not installed.
    """
    try:
        pandas = import_module("pandas")
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise InputError(
            "data frames need pandas, which is not installed: pip install 'whale-core[frames]'"
        ) from error
    others = dict.fromkeys(key for row in rows for key in row if key not in columns)
    return pandas.DataFrame.from_records(list(map(dict, rows)), columns=[*columns, *others])

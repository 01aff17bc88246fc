"""The rows of a table: a JSONL or Parquet file, or a data set from the Hugging Face hub."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from whale_core.errors import InputError
from whale_core.records import Json
from whale_math.columns import Columns

NEEDS = "install it with: pip install 'whale-math[data]'"


@frozen
class Table:
    """Rows, the columns that all of them have, and what to call where they come from."""

    name: str
    columns: tuple[str, ...]
    rows: Sequence[Mapping[str, Json]]
    notes: tuple[str, ...] = ()


def file_rows(path: str) -> Table:
    """Return the rows of a ``.jsonl`` or ``.parquet`` file.

    Raises:
        InputError: it cannot be read; the message names the line.
    """
    file = Path(os.path.expanduser(path))
    if not os.path.isfile(file):  # of a path too long or with a NUL, too, this says no
        raise InputError(f"domain.path={path}: no such file")
    if file.suffix == ".parquet":
        return _parquet(file)
    rows: list[Mapping[str, Json]] = []
    number = 0
    try:
        with file.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    row = json.loads(line)
                    if not isinstance(row, dict):
                        raise InputError(f"{path}: line {number} is not a JSON object")
                    rows.append(row)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: line {number}: not JSON ({error.msg})") from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON lines ({error})") from None
    if not rows:
        raise InputError(f"{path}: the file is empty")
    shared = [name for name in rows[0] if all(name in row for row in rows)]
    return Table(path, tuple(shared), rows)


def _parquet(file: Path) -> Table:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise InputError(f"{file}: a Parquet file needs pyarrow; {NEEDS}") from None
    try:
        table = parquet.read_table(file)
    except (OSError, ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{file}: not a readable Parquet file ({reason})") from None
    if table.num_rows == 0:
        raise InputError(f"{file}: the file is empty")
    return Table(str(file), tuple(table.column_names), table.to_pylist())


def hub_rows(columns: Columns, revision: str) -> Table:
    """Return the rows of a published data set at the commit ``revision``.

    Raises:
        InputError: no revision, ``datasets`` is not installed, or the hub does not deliver.
    """
    where = columns.hub
    if where is None:
        raise InputError("this source has no data set on the hub: give domain.path")
    if not revision:
        raise InputError(
            f"domain.revision: say which commit of {where.repository} to use (a data set may "
            "change under its name), or give domain.path, a file of it"
        )
    try:
        import datasets
    except ImportError:
        raise InputError(f"{where.repository} needs the package datasets; {NEEDS}") from None
    try:
        found = datasets.load_dataset(
            where.repository, where.configuration, split=where.split, revision=revision
        )
    except Exception as error:  # the hub, the network, the cache: each raises its own
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise InputError(
            f"{where.repository} at {revision}: cannot be loaded ({reason}); check name, commit "
            "and network, or give domain.path, a file of it"
        ) from None
    name = f"{where.repository} ({where.split}) at {revision}"
    return Table(name, tuple(found.column_names), list(found), (f"problems from {name}",))

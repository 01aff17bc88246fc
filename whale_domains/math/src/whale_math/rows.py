"""The rows of a table: a JSONL or Parquet file, or a data set from the Hugging Face hub."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from attrs import frozen

from whale_core.errors import InputError
from whale_core.json_lines import read_objects
from whale_core.records import Json
from whale_math.columns import Columns

BATCH = 1024  # rows of a Parquet file that are in memory
NEEDED = "a file of JSON lines is needed"
NEEDS = "install it with: pip install 'whale-math[data]'"


@frozen
class Table:
    """Numbered rows, which can be gone through once, the columns that they must have, and what to
    call where they come from. ``unit`` is what the numbers count."""

    name: str
    columns: tuple[str, ...]
    rows: Iterable[tuple[int, Mapping[str, Json]]]
    unit: str = "row"
    notes: tuple[str, ...] = ()


def file_rows(path: str, wanted: Collection[str]) -> Table:
    """Return the rows of a ``.jsonl`` or ``.parquet`` file; of a large one, few are in memory.

    Raises:
        InputError: it cannot be read, now or while the rows are gone through; the message names the
            line.
    """
    file = Path(os.path.expanduser(path))
    if not os.path.isfile(file):  # of a path too long or with a NUL, too, this says no
        raise InputError(f"domain.path={path}: no such file")
    if file.suffix == ".parquet":
        return _parquet(file, wanted)
    rows = read_objects(file, NEEDED)
    first = next(rows, None)
    if first is None:
        raise InputError(f"{path}: the file is empty")
    return Table(path, tuple(first[1]), itertools.chain([first], rows), "line")


def _parquet(file: Path, wanted: Collection[str]) -> Table:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise InputError(f"{file}: a Parquet file needs pyarrow; {NEEDS}") from None

    def unreadable(error: Exception) -> InputError:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return InputError(f"{file}: not a readable Parquet file ({reason})")

    def rows(names: list[str]) -> Iterator[Mapping[str, Json]]:
        try:
            for batch in table.iter_batches(BATCH, columns=names):
                yield from batch.to_pylist()
        except (OSError, ArrowException) as error:
            raise unreadable(error) from None

    try:
        table = parquet.ParquetFile(file)
    except (OSError, ArrowException) as error:
        raise unreadable(error) from None
    if table.metadata.num_rows == 0:
        raise InputError(f"{file}: the file is empty")
    names = tuple(table.schema_arrow.names)
    kept = [name for name in names if name in wanted]
    return Table(str(file), names, enumerate(rows(kept), start=1))


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
    names = tuple(found.column_names)
    kept = found.select_columns([each for each in names if each in columns.needed])
    return Table(name, names, enumerate(kept, start=1), notes=(f"problems from {name}",))

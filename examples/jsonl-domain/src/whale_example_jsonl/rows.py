"""Reads the file and shares its lines out to the splits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from whale_core.errors import InputError
from whale_core.keys import content_hash
from whale_core.records import Example, Json

from whale_example_jsonl.config import Config

SPLITS = ("weight", "harness", "selection", "test")


def read_examples(path: Path, config: Config) -> list[Example]:
    """Return the lines of a JSONL file as examples, each question once.

    Raises:
        InputError: the file cannot be read, or a line is not what the settings say; with its
            number.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"domain.path={path}: cannot be read ({error})") from None
    found: dict[str, Example] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            example = _example(line, f"{path}, line {number}", config)
            found.setdefault(example.id, example)
    return list(found.values())


def share_out(examples: Sequence[Example], config: Config, path: Path) -> dict[str, list[Example]]:
    """Return the splits: whole groups, in an order that depends on their names alone, each to the
    split that lacks most of its share.

    Raises:
        InputError: a split stays empty.
    """
    groups: dict[str, list[Example]] = {}
    for example in examples:
        groups.setdefault(example.group, []).append(example)
    shares = {name: int(getattr(config, name)) for name in SPLITS}
    splits: dict[str, list[Example]] = {name: [] for name in SPLITS}
    for name in sorted(groups, key=lambda group: content_hash("jsonl", group)):
        neediest = min(SPLITS, key=lambda split: len(splits[split]) / shares[split])
        splits[neediest] += groups[name]
    empty = [name for name in SPLITS if not splits[name]]
    if empty:
        raise InputError(
            f"domain.path={path}: {len(groups)} groups of lines are too few for four splits "
            f"(nothing left for {', '.join(empty)})"
        )
    return splits


def _example(line: str, where: str, config: Config) -> Example:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: not JSON ({error})") from None
    if not isinstance(row, dict):
        raise InputError(f"{where}: not a JSON object")
    question = _text(row, config.question, "domain.question", where)
    answer = _text(row, config.answer, "domain.answer", where)
    words = " ".join(sorted(question.casefold().split()))
    group = _text(row, config.group, "domain.group", where) if config.group else words
    content = {"question": question, "answer": answer}
    return Example(id=content_hash(question), content=content, group=content_hash(group))


def _text(row: Mapping[str, Json], column: str, setting: str, where: str) -> str:
    if column not in row:
        raise InputError(f"{where}: no column {column!r} ({setting}); it has {', '.join(row)}")
    value = row[column]
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise InputError(f"{where}: {column!r} must be a text or a number, not {value!r}"[:300])
    return str(value).strip()

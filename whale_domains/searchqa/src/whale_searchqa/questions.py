"""Reads questions in the columns of FlashRAG: ``id``, ``question``, ``golden_answers`` and
``metadata``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from attrs import frozen

from whale_core.errors import InputError
from whale_core.json_lines import Repeats, read_objects
from whale_core.keys import content_hash
from whale_core.records import Example
from whale_searchqa.answers import normalise
from whale_searchqa.retrieval.passages import halves

NEEDED = "FlashRAG columns are needed: question (text) and golden_answers (list of texts)"


@frozen
class Question:
    """A question with its accepted answers. ``group`` names what it is about: no group is in two
    splits."""

    text: str
    answers: tuple[str, ...]
    group: str
    source: str = ""
    hops: int | None = None

    def example(self) -> Example:
        """Return the example; its id comes from the question alone, so it tells no answer."""
        return Example(
            id=content_hash("searchqa", self.text),
            content={"question": self.text, "answers": list(self.answers)},
            group=self.group,
            source=self.source,
        )


def bundled(world: str) -> Path:
    """Return the folder of a bundled world, ``world`` or ``tuning``."""
    return Path(str(resources.files("whale_searchqa") / "data" / world))


@frozen
class Loaded:
    """Questions, and what a user must know of them."""

    questions: tuple[Question, ...]
    notes: tuple[str, ...] = ()


def load(path: Path, source: str = "") -> Loaded:
    """Read a JSONL file, plain or ``.gz``.

    Raises:
        InputError: the file cannot be read, a line is no JSON object or lacks a column, or there is
            no question in it.
    """
    return parse(read_objects(path, NEEDED), str(path), source)


def parse(rows: Iterable[tuple[int, Mapping[str, Any]]], place: str, source: str = "") -> Loaded:
    """Return the questions of numbered rows, those asked before left out: a note tells of those
    that were answered otherwise then.

    Raises:
        InputError: a row lacks a column or holds something else in it, or there is no row.
    """
    found: dict[str, tuple[Question, int]] = {}
    repeats = Repeats()
    for line, row in rows:
        question = _question(row, f"{place}: line {line}", source)
        first, at = found.setdefault(normalise(question.text) or question.text, (question, line))
        if at != line:
            repeats.add(line, at, same=_accepted(first) == _accepted(question))
    if not found:
        raise InputError(f"{place}: no questions; {NEEDED}")
    note = repeats.note(place, "line", "the first answers count")
    return Loaded(tuple(question for question, _ in found.values()), (note,) if note else ())


def _accepted(question: Question) -> set[str]:
    return {normalise(answer) or answer for answer in question.answers}


def _question(row: Mapping[str, Any], at: str, source: str) -> Question:
    missing = [name for name in ("question", "golden_answers") if name not in row]
    if missing:
        raise InputError(f"{at}: no column {', '.join(missing)}; {NEEDED}")
    text, answers = row["question"], row["golden_answers"]
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{at}: question is {str(text)[:40]!r}, not a text")
    if not _are_texts(answers):
        raise InputError(
            f"{at}: golden_answers is {str(answers)[:40]!r}, not a list of at least one text"
        )
    if any(map(halves, (text, *answers))):
        raise InputError(f"{at}: question or golden_answers holds half a surrogate pair")
    metadata = row.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    hops = known.get("hops")
    return Question(
        text=text.strip(),
        answers=tuple(dict.fromkeys(answer.strip() for answer in answers)),
        group=str(known.get("group") or normalise(text) or text),
        source=source,
        hops=hops if isinstance(hops, int) else None,
    )


def _are_texts(answers: object) -> bool:
    return (
        isinstance(answers, Sequence)
        and not isinstance(answers, str)
        and len(answers) > 0
        and all(isinstance(answer, str) and answer.strip() for answer in answers)
    )

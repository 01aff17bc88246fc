"""What the published data sets are called and look like: their columns, exactly.

Tested on files with these columns; the hub itself is not asked in tests.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from attrs import frozen

from whale_core.keys import content_hash
from whale_core.records import Json
from whale_math.problems import Problem

Row = Mapping[str, Json]
MARK = "####"
# DAPO wraps each problem in the same instruction; what is asked stands between these.
DAPO_BEFORE = re.compile(r"\ASolve the following math problem step by step\..*?\n\n", re.DOTALL)
DAPO_AFTER = re.compile(r"\n\nRemember to put your answer on its own line after \"Answer:\"\.\s*\Z")


@frozen
class Hub:
    """Where a data set lies on the Hugging Face hub."""

    repository: str
    split: str
    configuration: str | None = None


@frozen
class Columns:
    """A table's form: the columns it needs, and how a row becomes a problem."""

    needed: tuple[str, ...]
    problem: Callable[[Row], Problem]
    hub: Hub | None = None
    remedy: str = ""


def of_columns(question: str, answer: str) -> Columns:
    """Return the form of a table of one's own."""

    def problem(row: Row) -> Problem:
        return _problem(_text(row[question]), after_mark(_text(row[answer])))

    remedy = "; name them with domain.question and domain.answer"
    return Columns((question, answer), problem, remedy=remedy)


def after_mark(answer: str) -> str:
    """Return what follows the last ``####`` (GSM8K's final answer), or the whole answer."""
    return answer.rpartition(MARK)[2].strip()


def _gsm8k(row: Row) -> Problem:
    answer = _text(row["answer"])
    if MARK not in answer:
        raise ValueError(f"the answer has no {MARK}")
    return _problem(_text(row["question"]), after_mark(answer).replace(",", ""))


def _dapo(row: Row) -> Problem:
    (message,) = row["prompt"]
    text = DAPO_AFTER.sub("", DAPO_BEFORE.sub("", _text(message["content"])))
    return _problem(text, _text(row["reward_model"]["ground_truth"]))


def _math_500(row: Row) -> Problem:
    return _problem(_text(row["problem"]), _text(row["answer"]))


def _aime_2024(row: Row) -> Problem:
    return _problem(_text(row["Problem"]), _text(row["Answer"]))


def _aime_2025(row: Row) -> Problem:
    return _problem(_text(row["problem"]), _text(row["answer"]))


def _problem(text: str, answer: str) -> Problem:
    """Return a problem whose group is its text: nothing else says where it comes from."""
    bare = Problem(text, answer, "")
    return Problem(text, answer, "t" + content_hash(bare.key, length=16))


def _text(value: Json) -> str:
    """Return a cell as text; a table that has lost an answer has made floats of the others."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(f"a text is expected, not {type(value).__name__}")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"a text or number is expected, not {value}")
        if value.is_integer():
            return str(int(value))
    return str(value)


DAPO = Columns(
    ("data_source", "prompt", "ability", "reward_model", "extra_info"),
    _dapo,
    Hub("BytedTsinghua-SIA/DAPO-Math-17k", "train"),
)
GSM8K = Columns(("question", "answer"), _gsm8k, Hub("openai/gsm8k", "train", "main"))
MATH_500 = Columns(
    ("problem", "solution", "answer", "subject", "level", "unique_id"),
    _math_500,
    Hub("HuggingFaceH4/MATH-500", "test"),
)
AIME_2024 = Columns(
    ("ID", "Problem", "Solution", "Answer"), _aime_2024, Hub("Maxwell-Jia/AIME_2024", "train")
)
AIME_2025 = Columns(("problem", "answer"), _aime_2025, Hub("yentinglin/aime_2025", "train"))

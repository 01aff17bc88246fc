"""Reference lines of a report: what programs that do no arithmetic score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from whale_core.records import Example
from whale_math.nulls import LARGEST, NUMBER
from whale_math.verify.integers import whole_number


def chance_levels(examples: Sequence[Example]) -> Mapping[str, float]:
    """Return the mean probability that each program answers one of ``examples``.

    ``random number``: uniform below 1,000. ``a number of the problem``: uniform among those in its
    text.
    """
    return {
        "random number": fmean(map(_random, examples)),
        "a number of the problem": fmean(map(_copied, examples)),
    }


def _random(example: Example) -> float:
    number = whole_number(example.content["answer"])
    return 1 / LARGEST if number is not None and 0 <= number < LARGEST else 0.0


def _copied(example: Example) -> float:
    numbers = NUMBER.findall(example.content["problem"])
    if not numbers:
        return 0.0
    answer = whole_number(example.content["answer"])
    return sum(whole_number(number) == answer for number in numbers) / len(numbers)

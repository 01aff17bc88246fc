"""Reference lines of a report: what programs score that look nothing up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

from whale_core.records import Example
from whale_searchqa.answers import exact_match, normalise


def first_answers(examples: Sequence[Example]) -> list[str]:
    """Return the first reference of each example, in the examples' order."""
    return [example.content["answers"][0] for example in examples]


def collision(answers: Sequence[str]) -> float:
    """Return the probability that two answers drawn from ``answers`` are the same."""
    counts = Counter(normalise(answer) for answer in answers)
    return sum(count**2 for count in counts.values()) / max(1, len(answers)) ** 2


def chance_levels(examples: Sequence[Example], known: Sequence[Example]) -> Mapping[str, float]:
    """Return the share of ``examples`` that two programs get right: one that always gives the most
    frequent answer of ``known``, and one that gives a random answer of ``known``."""
    counts = Counter(first_answers(known))
    commonest = min(counts, key=lambda answer: (-counts[answer], answer))
    share = {answer: count / counts.total() for answer, count in counts.items()}
    return {
        "the commonest answer": fmean(
            exact_match(commonest, example.content["answers"]) for example in examples
        ),
        "a random answer": fmean(_random(example, share) for example in examples),
    }


def _random(example: Example, share: Mapping[str, float]) -> float:
    right = {normalise(answer) for answer in example.content["answers"]}
    return sum(part for answer, part in share.items() if normalise(answer) in right)

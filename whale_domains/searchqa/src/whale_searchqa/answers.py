"""Answers: where one stands in a reply, and when it is the same as a reference.

The rule is that of the exact-match score of Search-R1, which is SQuAD's: lower case, no
punctuation, no articles, single blanks; then equality with any reference.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable

from whale_core.records import Trajectory

VERSION = "2"  # of what an episode commits to
THINK, THOUGHT = "<think>", "</think>"
_PAIR = re.compile(r"<answer>((?:(?!</?answer>).)*)</answer>", re.DOTALL)
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")


def extract(reply: str) -> str | None:
    """Return the answer that ``reply`` commits to, blanks around it removed; None without one.

    It stands in the last innermost pair of tags: an ``<answer>`` and an ``</answer>`` with no other
    such tag between them. The tags are lower case and bare. What a model thinks between
    ``<think>`` and ``</think>``, or before a ``</think>`` alone, commits it to nothing; thinking
    that is not finished has no answer after it.
    """
    said = reply.rpartition(THOUGHT)[2]
    if THINK in said:
        return None
    pairs = _PAIR.findall(said)
    return pairs[-1].strip() if pairs else None


def normalise(text: str) -> str:
    """Return ``text`` in lower case, without ASCII punctuation and English articles, its words
    separated by single blanks."""
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, references: Iterable[str]) -> bool:
    """Say whether ``answer`` is one of ``references`` after normalisation.

    An answer that normalises to nothing ("The", "?!") is right only where a reference is written
    the same, case aside: nothing is no answer.
    """
    normal, written = normalise(answer), answer.strip().lower()
    return any(
        normal == normalise(reference) and (bool(normal) or written == reference.strip().lower())
        for reference in references
        if reference.strip()
    )


def contained(text: str, references: Iterable[str]) -> bool:
    """Say whether ``text`` holds one of ``references`` as whole words, both normalised."""
    words = f" {normalise(text)} "
    normal = map(normalise, references)
    return any(f" {each} " in words for each in normal if each)


def committed(trajectory: Trajectory) -> str | None:
    """Return the answer that an episode commits to; None if it commits to none.

    It is that of the last reply the model gave. What the harness returned must come from that reply
    and commit to the same answer, so that a program cannot choose among several.
    """
    last = trajectory.calls[-1].text if trajectory.calls else ""
    returned = trajectory.answer or ""
    answer = extract(last)
    return answer if returned in last and extract(returned) == answer else None

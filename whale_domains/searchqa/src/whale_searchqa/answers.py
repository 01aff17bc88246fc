"""Answers: where one stands in a reply, and when it is the same as a reference.

The rule is that of the exact-match score of Search-R1, which is SQuAD's: lower case, no
punctuation, no articles, single blanks; then equality with any reference.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable

_PAIR = re.compile(r"<answer>((?:(?!</?answer>).)*)</answer>", re.DOTALL)
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(a|an|the)\b")


def extract(reply: str) -> str | None:
    """Return the answer that ``reply`` commits to, blanks around it removed; None without one.

    It stands in the last innermost pair of tags: an ``<answer>`` and an ``</answer>`` with no other
    such tag between them. The tags are lower case and bare.
    """
    pairs = _PAIR.findall(reply)
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

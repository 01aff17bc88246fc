"""What of an answer must be right: all of it, where the library would look at a part only."""

from __future__ import annotations

import re

RELATION = re.compile(
    r"[<>≠≈≤≥]|\\(?:ne|neq|approx|sim|simeq|cong|equiv|le|leq|ge|geq|lt|gt)(?![A-Za-z])"
)
NAMED = re.compile(r"\\?[A-Za-z]+(?:_\{?\w+\}?)?\s*=")  # x =, \theta =, a_{1} =
MOST = 4
BAR = re.compile(r"[0-9]\s*(?:\||\\mid(?![A-Za-z]))\s*[0-9]")  # 6 | 5: the library takes the last
GROUPING = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))|\\[,;]")
SETS = re.compile(r"[,;(\[±]|\\\{|\\(?:text|pm|mp)(?![A-Za-z])|\b(?:or|and)\b")


def sides(answer: str, reference: str) -> list[str]:
    """Return the expressions that must all equal ``reference`` for ``answer`` to be right.

    Of an equation these are its sides, but for a name before the first (x = 5). No side at all
    says that the answer relates or lists several values, or too many, and so names none; where the
    reference is a relation or a list itself, the answer is compared as a whole.
    """
    if _lists(answer) and not SETS.search(reference):
        return []  # of the same value twice, the library makes a set of one
    if BAR.search(answer) and not BAR.search(reference):
        return []
    if RELATION.search(reference) or "=" in reference:
        return [answer]
    answer = answer.strip()
    named = NAMED.match(answer)
    found = answer[named.end() if named else 0 :].split("=")
    if RELATION.search(answer) or len(found) > MOST:
        return []
    return found


def _lists(answer: str) -> bool:
    """Say whether at least two parts with numbers stand beside each other, outside of brackets."""
    depth, parts = 0, [""]
    for character in GROUPING.sub("", answer):
        depth += (character in "([{") - (character in ")]}")
        if character in ",;" and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return sum(any(map(str.isdecimal, part)) for part in parts) > 1

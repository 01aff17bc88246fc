"""The sides of an answer that is an equation: the library itself would look at one of them only."""

from __future__ import annotations

import re

RELATION = re.compile(
    r"[<>≠≈≤≥]|\\(?:ne|neq|approx|sim|simeq|cong|equiv|le|leq|ge|geq|lt|gt)(?![A-Za-z])"
)
NAMED = re.compile(r"\\?[A-Za-z]+(?:_\{?\w+\}?)?\s*=")  # x =, \theta =, a_{1} =
MOST = 4


def sides(answer: str, reference: str) -> list[str]:
    """Return the expressions that must all equal ``reference`` for ``answer`` to be right.

    Of an equation these are its sides, but for a name before the first (x = 5). No side at all
    says that the answer relates different values, or too many, and so names none; where the
    reference is a relation itself, the answer is compared as a whole.
    """
    if RELATION.search(reference) or "=" in reference:
        return [answer]
    answer = answer.strip()
    named = NAMED.match(answer)
    found = answer[named.end() if named else 0 :].split("=")
    if RELATION.search(answer) or len(found) > MOST:
        return []
    return found

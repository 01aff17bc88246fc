r"""Which expressions are too large to try: the library would work at them until it is ended."""

from __future__ import annotations

import math
import re

LONGEST = 2000  # characters
DEEPEST = 16  # brackets within brackets: its parser's time grows exponentially with them
MOST_BITS = 1 << 28  # of a number; 9^{9^9}, which it works out in full, has a billion
LARGE = 10**15  # stands for every larger number
POWER = re.compile(
    r"(?<![\d.])(?P<base>\d+)\s*(?:\^|\*\*)\s*"
    r"(?:\{\s*-?\s*(?P<braced>\d+)\s*\}|\(\s*-?\s*(?P<round>\d+)\s*\)|(?P<bare>\d+))"
)
FACTORIAL = re.compile(r"(?<![\d.])(\d{7,})\s*\)?\s*!")


def too_large(text: str) -> bool:
    """Say whether an expression is too long, too deeply nested, or has a number too large to be
    written out: a tower of powers, say."""
    if len(text) > LONGEST or _depth(text) > DEEPEST or FACTORIAL.search(text):
        return True
    while power := POWER.search(text):
        base = int(power["base"])
        exponent = int(power["braced"] or power["round"] or power["bare"])
        bits = exponent * math.log2(base) if base > 1 else 0.0
        if bits > MOST_BITS:
            return True
        value = base**exponent if bits < math.log2(LARGE) else LARGE
        text = text[: power.start()] + str(value) + text[power.end() :]
    return False


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        deepest = max(deepest, depth)
    return deepest

"""Whole numbers as people and models write them: the answers that need no algebra."""

from __future__ import annotations

import re

PLAIN = re.compile(r"[+-]?[0-9]{1,40}")
GROUPED = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3}){1,12}")
GROUPING = re.compile(r"(?<=[0-9])(?:\\[,;:! ]|\{,\}|[ \u00a0\u2009\u202f])(?=[0-9]{3}(?![0-9]))")
MINUS = "−"


def whole_number(text: str) -> int | None:
    r"""Return the whole number that ``text`` writes and nothing else; None for anything else.

    Taken: a sign, leading zeros, digits grouped in threes by ``,``, ``{,}``, ``\,`` or a blank, a
    dollar sign on either side (it is mathematics or money), a full stop after it.
    """
    text = text.strip().removeprefix("\\(").removesuffix("\\)").replace("\\$", "$").strip("$ ")
    text = GROUPING.sub(",", text.removesuffix(".")).replace(MINUS, "-")
    if PLAIN.fullmatch(text):
        return int(text)
    if GROUPED.fullmatch(text):
        return int(text.replace(",", ""))
    return None

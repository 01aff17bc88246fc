"""Whole numbers as people and models write them: the answers that need no algebra."""

from __future__ import annotations

import re

PLAIN = re.compile(r"[+-]?[0-9]{1,40}")
GROUPED = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3}){1,12}")
SPACES = re.compile(r"\\[,;: !]|\s")
MINUS = "−"


def whole_number(text: str) -> int | None:
    r"""Return the whole number that ``text`` writes and nothing else; None for anything else.

    Taken: a sign, leading zeros, digits grouped in threes by ``,``, ``{,}`` or ``\,``, a dollar
    sign on either side (it is mathematics or money), a full stop after it.
    """
    text = SPACES.sub("", text).replace("{,}", ",").replace(MINUS, "-")
    text = text.removeprefix("\\(").removesuffix("\\)").replace("\\$", "$").strip("$")
    text = text.removesuffix(".")
    if PLAIN.fullmatch(text):
        return int(text)
    if GROUPED.fullmatch(text):
        return int(text.replace(",", ""))
    return None

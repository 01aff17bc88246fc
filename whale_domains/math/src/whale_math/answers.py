r"""Where in a text the answer stands: tags, boxes, thinking, plain expressions."""

from __future__ import annotations

import re

from whale_math.verify.spelling import mixed_number

BOX = "\\boxed{"
THINK, THOUGHT = "<think>", "</think>"
TAG, END_TAG = "<answer>", "</answer>"
MOST_PLAIN = 200  # characters of an answer that is neither boxed nor tagged
WORDS = re.compile(r"(?<![A-Za-z\\])[A-Za-z]{2,}")
SEVERAL = re.compile(r"[0-9]\s+[0-9]")  # numbers side by side are no expression
FUNCTIONS = {"pi", "sqrt", "sin", "cos", "tan", "log", "ln", "exp", "frac", "oo", "inf"}


def committed(text: str) -> str:
    """Return what a reply says after its thinking; nothing where that is unfinished."""
    said = text.rpartition(THOUGHT)[2]
    return "" if THINK in said else said


def boxed(text: str) -> str | None:
    r"""Return the content of the last ``\boxed{…}``; None without one, or where it is not closed.

    Braces are balanced; an escaped brace (``\{``) is a character.
    """
    start = text.rfind(BOX)
    if start < 0:
        return None
    depth, escaped = 1, False
    for index in range(start + len(BOX), len(text)):
        character = text[index]
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in "{}":
            depth += 1 if character == "{" else -1
            if depth == 0:
                return text[start + len(BOX) : index]
    return None


def stated(text: str) -> str | None:
    r"""Return the expression that an answer commits to, or None.

    That is the last box; in ``<answer>`` tags (the last closing one, and the nearest opening one
    before it) what they hold, or the box in it; without either, a text that is an expression and
    nothing else. A box that is opened and not closed commits to nothing.
    """
    before, end, _ = text.rpartition(END_TAG)
    if end:
        _, tag, inside = before.rpartition(TAG)
        if not tag:
            return None
        text = inside
    elif TAG in text:
        return None
    if BOX in text:
        content = boxed(text)
        return None if content is None else content.strip() or None
    text = text.strip()
    if not text or len(text) > MOST_PLAIN or "\n" in text:
        return None
    if SEVERAL.search(text) and not mixed_number(text):
        return None
    if end or not any(word not in FUNCTIONS for word in WORDS.findall(text)):
        return text
    return None

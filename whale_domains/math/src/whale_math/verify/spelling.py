r"""Expressions as people type them, in the LaTeX that the library reads: ½, √3, –5, x², 1 1/2."""

from __future__ import annotations

import re
import unicodedata

MIXED = re.compile(r"([+-]?\d+)\s+(\d+)\s*/\s*(\d+)")
MINUS = re.compile("[\u2212\u2010\u2011\ufe63\uff0d]|(?:^|(?<=[(\\[{,;=+*/^]))\\s*\u2013")
ROOT = re.compile(r"√\s*(?:\(([^()]*)\)|\{([^{}]*)\}|(\d+(?:\.\d+)?|[A-Za-z]))")
FRACTION = re.compile(r"(?:(?<=\d)\s+)?([¼-¾⅐-⅞])")
RAISED = re.compile("[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
SIGNS = str.maketrans({"·": r"\cdot ", "°": r"^\circ ", "∞": r"\infty ", "⁄": "/"})


def in_latex(text: str) -> str:
    """Return an expression with what the library does not read written so that it does.

    An en dash is a minus sign where no number can end before it: ``5–7`` may be a range.
    """
    text = MINUS.sub("-", text.strip())
    if mixed_number(text):
        text = MIXED.sub(r"\1\\frac{\2}{\3}", text)
    text = ROOT.sub(lambda found: r"\sqrt{" + (found[1] or found[2] or found[3] or "") + "}", text)
    text = FRACTION.sub(lambda found: _fraction(found[1]), text)
    text = RAISED.sub(lambda found: "^{" + _plain(found[0]) + "}", text)
    return text.translate(SIGNS)


def mixed_number(text: str) -> bool:
    """Say whether a text is a whole number beside a proper fraction, such as ``1 1/2``."""
    found = MIXED.fullmatch(MINUS.sub("-", text.strip()))
    return found is not None and 0 < len(found[2]) <= 40 and _is_proper(found[2], found[3])


def _is_proper(above: str, below: str) -> bool:
    return len(below) <= 40 and 0 < int(above) < int(below)


def _fraction(character: str) -> str:
    above, _, below = _plain(character).partition("/")
    return rf"\frac{{{above}}}{{{below}}}"


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("⁄", "/").replace("\u2212", "-")

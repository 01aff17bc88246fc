r"""Whether an answer is worked out: where a number is asked for, ``31 + 111`` is the task, not 142.

A library that compares values takes such an answer for right, and a policy under training finds
that out before it learns to reckon.
"""

from __future__ import annotations

import re

GROUP = r"(?:,|\{,\}|\\[,;:! ]|[ \u00a0\u2009\u202f])(?=\d{3}(?!\d))\d{3}"
DIGITS = rf"(?:\d+(?:{GROUP})*(?:\.\d+)?|\.\d+)"
PART = rf"(?:\{{\s*[+-]?{DIGITS}\s*\}}|\d)"
FRACTION = rf"(?:\\[dt]?frac\s*{PART}\s*{PART}|{DIGITS}\s*/\s*{DIGITS})"
POWER_OF_TEN = rf"{DIGITS}\s*(?:\\times|\\cdot|[x*×])\s*10\s*\^\s*(?:\{{\s*[+-]?\d+\s*\}}|\d)"
NUMBER = re.compile(
    rf"(?P<power>{POWER_OF_TEN})|(?P<fraction>(?:{DIGITS}\s*)?{FRACTION})|(?P<plain>{DIGITS})"
)
# Units, words and degrees: they neither make a value nor reckon with one.
UNITS = re.compile(
    r"\\(?:text|mathrm|mbox|textbf|mathbf)\s*\{[^{}\d]*\}(?:\^\{?-?\d\}?)?|\^\s*\{?\\circ\}?"
    r"|(?<![A-Za-z])(?:mm|cm|dm|km|m|in|ft|yd|mi|s|units?)\s*\^\s*\{?-?\d\}?|\\?%\s*$"
)
LAYOUT = re.compile(
    r"\\(?:left|right|displaystyle|quad|circ|degree|f?boxe?d?)(?![A-Za-z])|\\[%$,;:! ]|\$"
)
RECKONS = re.compile(
    r"[+*^!×÷√&∗⋅·•]|N\s*[)}\]]*\s*[-/%|]\s*[({\[]*\s*[+-]?\s*N|[)N]\s*\(|\)\s*N|N\s+N|\\[A-Za-z]+|[A-Za-z]\("
)
MARK = "N"


def is_number(reference: str) -> bool:
    """Say whether a reference is one number and at most its unit: nothing is left to reckon."""
    text = LAYOUT.sub(" ", UNITS.sub(" ", NUMBER.sub(MARK, reference)))
    return re.fullmatch(rf"\s*[+-]?\s*{MARK}(?:\s+[A-Za-z]{{2,}})*\s*\.?\s*", text) is not None


def is_worked_out(answer: str, reference: str) -> bool:
    """Say whether nothing is left to reckon in ``answer``, for a ``reference`` that is a number.

    A fraction, a mixed number and a multiple of a power of ten are numbers; but where the
    reference is whole, a fraction is a division that was not done.
    """
    whole = not any(mark in reference for mark in ("/", "frac", "."))

    def mark(found: re.Match[str]) -> str:
        return f" {MARK}/{MARK} " if whole and found["fraction"] else MARK

    rest = LAYOUT.sub(" ", NUMBER.sub(mark, UNITS.sub(" ", answer)))
    return RECKONS.search(re.sub(r"^\s*[({]*\s*\+", "", rest)) is None

"""What the judge is shown: the data in a block they cannot leave, the instructions after them.

A harness, or a model that was trained under this judge, may write anything into an answer. So the
data are one line of JSON: line ends, control and format characters are escaped, and so are angle
and square brackets and bars, of which the special tokens of chat templates are made. The lines
around it carry a mark that is a hash of the data: an answer cannot contain its own.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from importlib import resources

from whale_core.keys import content_hash

LONGEST = 1000  # characters; what is longer is a passage and no answer
MARKUP = "<>[]|`"
_ESCAPED = ("C", "Zl", "Zp")  # categories: control, format, surrogate, private, unassigned, lines
_SLOT = re.compile(r"\{\{(NONCE|DATA)\}\}")


@cache
def template() -> str:
    """Return the judge's instructions with their slots."""
    return (resources.files("whale_searchqa.judge") / "prompt.md").read_text("utf-8")


@cache
def prompt_version() -> str:
    """Return what changes with every change of the instructions or of the framing."""
    return "1-" + content_hash(template(), MARKUP, *_ESCAPED, str(LONGEST), length=8)


def tidy(answer: str) -> str:
    """Return ``answer`` with single blanks for all white space."""
    return " ".join(answer.split())


def prompt(question: str, references: Sequence[str], answer: str) -> str:
    """Return the message to the judge."""
    listed = ", ".join(map(_quoted, references))
    fields = {"question": _quoted(question), "references": f"[{listed}]", "answer": _quoted(answer)}
    data = "{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}"
    values = {"NONCE": content_hash("nonce", data), "DATA": data}
    # One pass: what is put in is not looked through for slots.
    return _SLOT.sub(lambda slot: values[slot[1]], template())


def _quoted(text: str) -> str:
    """Return ``text`` as a JSON string in which nothing ends a line or means anything."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(_escape(each) if _is_unsafe(each) else each for each in quoted)


def _is_unsafe(character: str) -> bool:
    return character in MARKUP or unicodedata.category(character).startswith(_ESCAPED)


def _escape(character: str) -> str:
    return json.dumps(character)[1:-1] if ord(character) > 126 else f"\\u{ord(character):04x}"

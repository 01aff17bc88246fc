"""HTML that cannot hold what was not meant as HTML.

Only ``tag`` and ``joined`` make ``Markup``, and both escape every ``str`` they are given. What a
model, a harness or a proposer wrote can therefore be passed to them as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import frozen

VOID = frozenset({"br", "meta", "rect", "line", "circle", "path", "polyline", "polygon"})
NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
LINK = re.compile(r"#[a-z][a-z0-9-]*")
SEEN = frozenset("\n\t\u202f")  # the last is the space between groups of digits


@frozen
class Markup:
    """A piece of HTML that is well formed and safe."""

    html: str


Content = str | Markup | None | Iterable["Content"]


def tag(name: str, /, *content: Content, **attributes: str | int | float | bool | None) -> Markup:
    """Return an element. Text is escaped; None is left out.

    Attribute names are written with ``_`` for ``-`` and a trailing ``_`` where Python has the word
    (``class_``). Those that are None or False are left out; True gives one without a value. A float
    is rounded to two decimals, as coordinates are; what must be exact is given as text.

    Raises:
        ValueError: a name is none, an attribute would run a script, or a link would leave the page.
    """
    if not NAME.fullmatch(name) or name in ("script", "style"):
        raise ValueError(f"{name!r} is not an element of a report")
    parts = [name]
    for key, value in attributes.items():
        word = key.rstrip("_").replace("_", "-")
        if not NAME.fullmatch(word) or word.startswith("on") or word in ("style", "src"):
            raise ValueError(f"{word!r} is not an attribute of a report")
        if word == "href" and not LINK.fullmatch(str(value)):
            raise ValueError(f"{value!r} leads out of the report")
        if value is None or value is False:
            continue
        parts.append(word if value is True else f'{word}="{_escaped(_plain(value))}"')
    opened = " ".join(parts)
    if name in VOID and not content:
        return Markup(f"<{opened}/>")
    return Markup(f"<{opened}>{joined(*content).html}</{name}>")


def joined(*content: Content) -> Markup:
    """Return pieces one after the other, text escaped."""
    return Markup("".join(_html(each) for each in content))


def visible(text: str) -> Markup:
    """Return untrusted text with what cannot be seen shown as an escape: control characters,
    direction marks, lone surrogates. Lines and tabs stay."""
    pieces: list[Content] = []
    plain: list[str] = []
    for character in text:
        if character.isprintable() or character in SEEN:
            plain.append(character)
            continue
        pieces.append("".join(plain))
        pieces.append(tag("span", ascii(character)[1:-1], class_="esc"))
        plain = []
    return joined(*pieces, "".join(plain))


def clipped(text: str, limit: int) -> Markup:
    """Return ``visible`` text of at most ``limit`` characters, and how much of it is not shown."""
    if len(text) <= limit:
        return visible(text)
    left = f"{len(text) - limit:,}".replace(",", "\u202f")
    return joined(visible(text[:limit]), tag("span", f"… {left} more characters", class_="cut"))


def _html(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, Markup):
        return content.html
    if isinstance(content, str):
        return _escaped(content)
    return "".join(_html(each) for each in content)


def _plain(value: str | int | float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _escaped(text: str) -> str:
    """Escape for text and for quoted attributes alike; nothing unprintable stays."""
    seen = "".join(
        each if each.isprintable() or each in SEEN else ascii(each)[1:-1] for each in text
    )
    for character, entity in (
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ('"', "&quot;"),
        ("'", "&#39;"),
    ):
        seen = seen.replace(character, entity)
    return seen

"""The page: one HTML file that loads nothing, from anywhere.

A content security policy allows no source but the style and the script that are in the file, each
named by its hash: had something slipped through the escaping, the browser would not run it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from attrs import frozen

from whale_core.errors import InputError
from whale_core.evidence.report.markup import Content, Markup, joined, tag

FILE = "report.html"  # in the folder of what it is about


@frozen
class Section:
    """A part of the page with an anchor; ``name`` stands in the list of contents."""

    anchor: str
    name: str
    content: Markup


def page(title: str, head: Content, sections: Sequence[Section], reload_seconds: int = 0) -> str:
    """Return the whole page; with ``reload_seconds`` it loads itself again after as many."""
    contents = tag("nav", [tag("a", each.name, href=f"#{each.anchor}") for each in sections])
    parts = [
        tag("section", tag("h2", each.name), each.content, id=each.anchor) for each in sections
    ]
    style, script = _text("style.css"), _text("script.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    refresh = f'<noscript><meta http-equiv="refresh" content="{reload_seconds}"/></noscript>\n'
    meta = joined(
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
    )
    body = tag("body", tag("header", head, contents), tag("main", *parts),
               data_reload=reload_seconds or None)  # fmt: skip
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n{meta.html}\n'
        f"{refresh if reload_seconds else ''}<style>{style}</style>\n</head>\n"
        f"{body.html.removesuffix('</body>')}\n<script>{script}</script>\n</body>\n</html>\n"
    )


def write_page(path: Path, text: str) -> None:
    """Write a file whole: a browser never sees half of it.

    Raises:
        InputError: it cannot be written there.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


@cache
def _text(name: str) -> str:
    return (files("whale_core.evidence.report") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

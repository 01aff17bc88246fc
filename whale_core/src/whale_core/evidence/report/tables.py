"""A report as plain text for other programs: JSON, Markdown, CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from whale_core.cli.text import printable

MARKED = re.compile(r"([\\`*_\[\]<>|~&])")


def markdown_text(text: str, limit: int = 300) -> str:
    """Return untrusted text as one line of Markdown that shows as it is written: no link, no image,
    no HTML."""
    return MARKED.sub(r"\\\1", printable(text, limit))


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; cells must be Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def csv_text(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV; None is an empty field."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(["" if each is None else each for each in row] for row in rows)
    return buffer.getvalue()

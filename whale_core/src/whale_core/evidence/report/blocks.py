"""Tables and folding parts, as all sections use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from whale_core.evidence.report.markup import Content, Markup, tag


@frozen
class Cell:
    """A table cell. ``kind``: ``n`` a number, ``w`` running text, "" short text; ``value`` is what
    a column is sorted by."""

    content: Content
    kind: str = ""
    value: float | None = None


def number(content: Content, value: float | None = None) -> Cell:
    """Return the cell of a number."""
    return Cell(content, "n", value)


def table(
    heads: Sequence[str | Cell],
    rows: Sequence[Sequence[Content | Cell]],
    caption: Content = None,
    strong: Sequence[int] = (),
    faint: Sequence[int] = (),
    sortable: bool = False,
) -> Markup:
    """Return a table that scrolls within itself where it is too wide; ``strong`` and ``faint`` name
    rows by index."""
    kinds = [cell.kind if isinstance(cell, Cell) else "" for cell in rows[0]] if rows else []
    head = [
        tag("th", each.content if isinstance(each, Cell) else each,
            class_=(kinds[index] if index < len(kinds) and kinds[index] == "n" else None))
        for index, each in enumerate(heads)
    ]  # fmt: skip
    body = [
        tag("tr", [_cell(cell) for cell in row],
            class_="strong" if index in strong else "faint" if index in faint else None)
        for index, row in enumerate(rows)
    ]  # fmt: skip
    whole = tag(
        "table",
        tag("caption", caption) if caption is not None else None,
        tag("thead", tag("tr", *head)),
        tag("tbody", *body),
        class_="sortable" if sortable else None,
    )
    return tag("div", whole, class_="scroll")


def folded(anchor: str, summary: Content, *content: Content, opened: bool = False) -> Markup:
    """Return a part that opens on a click."""
    inside = tag("div", *content, class_="inside")
    return tag("details", tag("summary", summary), inside, id=anchor, open=opened)


def definitions(pairs: Mapping[str, Content]) -> Markup:
    """Return names with what they stand for."""
    parts = [(tag("dt", name), tag("dd", content)) for name, content in pairs.items()]
    return tag("dl", parts, class_="pairs")


def note(*content: Content) -> Markup:
    """Return a quiet remark."""
    return tag("p", *content, class_="note")


def _cell(cell: Content | Cell) -> Markup:
    if isinstance(cell, Cell):
        value = None if cell.value is None else repr(float(cell.value))  # not rounded: a sort key
        return tag("td", cell.content, class_=cell.kind or None, data_value=value)
    return tag("td", cell)

"""A grid as text, as an SVG image and as a page: means as shades, figures beneath."""

from __future__ import annotations

from collections.abc import Sequence

from whale_core.evidence.grid import CarryOver, Grid
from whale_core.evidence.report import page as pages
from whale_core.evidence.report.blocks import Cell, note, number, table
from whale_core.evidence.report.markup import Content, Markup, clipped, joined, tag
from whale_core.stats import Interval

SHADES = " ░▒▓█"
CELL_WIDTH, CELL_HEIGHT = 84, 44
LABEL_WIDTH, HEAD_HEIGHT = 260, 40


def text_lines(grid: Grid) -> list[str]:
    """Return the heat map, its legend, the intervals and both figures as lines of plain text."""
    from whale_core.cli.text import printable

    names = [f"c{number}" for number in range(1, len(grid.columns) + 1)]
    labels = [printable(row.label, 40) for row in grid.rows]
    width = max(len(label) for label in labels)
    top = _top(grid)
    lines = [f"{'mean, %':<{width}}  " + " ".join(f"{name:>9}" for name in names)]
    for row, label in zip(grid.rows, labels, strict=True):
        cells = []
        for column in grid.columns:
            mean = grid.interval(row, column).mean
            own = "*" if column.harness_id == row.own else " "
            cells.append(f"{100 * mean:6.1f}{own}{SHADES[_shade(mean, top)] * 2}")
        lines.append(f"{label:<{width}}  " + " ".join(cells))
    lines.append("* the harness that these weights were trained under last")
    for name, column in zip(names, grid.columns, strict=True):
        ends = [_percent(grid.interval(row, column)) for row in grid.rows]
        lines.append(f"{name:<4} {printable(column.label, 48)} ({column.kind}): {'; '.join(ends)}")
    return [*lines, *figure_lines(grid)]


def figure_lines(grid: Grid) -> list[str]:
    """Return what the two figures say, a line for each θ and each found harness."""
    from whale_core.cli.text import printable

    lines = []
    groups = (
        (
            "weights under harnesses they were not trained with",
            "harnesses found under them",
            grid.weights_transfer(),
        ),
        (
            "harnesses under weights they were not found with",
            "weights trained under them",
            grid.harness_transfer(),
        ),
    )
    for title, related, figures in groups:
        if figures:
            lines.append(f"{title} (gains in points, paired by example):")
        for each in figures:
            share = "" if each.share is None else f", {100 * each.share:.0f} % carries over"
            subject, home = printable(each.subject, 40), printable(each.home, 40)
            lines.append(
                f"  {subject}: own gain {_points(each.own)} at {home}, elsewhere "
                f"({each.elsewhere}) {_points(each.others)}; excess {_points(each.excess)}{share}"
            )
            if each.related_gain is not None:
                lines.append(
                    f"    {related} ({each.related}), not among these: {_points(each.related_gain)}"
                )
    return lines


def svg(grid: Grid) -> str:
    """Return the heat map as an SVG image, a file of its own."""
    return f"{drawn(grid).html}\n"


def drawn(grid: Grid) -> Markup:
    """Return the heat map: a cell's shade is its mean, its text the interval too; the cell of a θ
    and the harness it was trained under last has a frame."""
    top = _top(grid)
    width = LABEL_WIDTH + CELL_WIDTH * len(grid.columns)
    foot = HEAD_HEIGHT + CELL_HEIGHT * len(grid.rows)
    parts: list[Content] = [
        _text(LABEL_WIDTH + x * CELL_WIDTH + CELL_WIDTH // 2, 26, f"c{x + 1}", "middle")
        for x in range(len(grid.columns))
    ]
    for y, row in enumerate(grid.rows):
        base = HEAD_HEIGHT + y * CELL_HEIGHT
        parts.append(_text(4, base + 27, row.label[:36]))
        for x, column in enumerate(grid.columns):
            cell, left = grid.interval(row, column), LABEL_WIDTH + x * CELL_WIDTH
            shade = cell.mean / top if top else 0.0
            own = column.harness_id == row.own
            parts.append(
                tag("rect", tag("title", f"{row.label} under {column.label}"),
                    x=left + 2, y=base + 2, width=CELL_WIDTH - 4, height=CELL_HEIGHT - 4,
                    fill=f"hsl(215,60%,{round(97 - 62 * shade)}%)",
                    stroke="#b00" if own else None, stroke_width=3 if own else None)
            )  # fmt: skip
            ink = "light" if shade > 0.6 else "dark"
            for line, words in ((19, f"{100 * cell.mean:.1f}"), (34, _range(cell))):
                parts.append(_text(left + CELL_WIDTH // 2, base + line, words, "middle", ink))
    for x, column in enumerate(grid.columns):
        parts.append(_text(4, foot + 18 * (x + 1), f"c{x + 1}: {column.label} ({column.kind})"))
    return tag(
        "svg", *parts, xmlns="http://www.w3.org/2000/svg", class_="heat", role="img", width=width,
        viewBox=f"0 0 {width} {foot + 18 * (len(grid.columns) + 1)}",
        aria_label="mean reward of weights by harness",
        font_family="system-ui, sans-serif", font_size=13,
    )  # fmt: skip


def _text(x: int, y: int, words: str, anchor: str | None = None, ink: str | None = None) -> Markup:
    """Return text; the ``ink`` of a cell is the same on every page, other text follows its page."""
    fill = {"light": "#fff", "dark": "#111", None: None}[ink]
    return tag("text", words, x=x, y=y, text_anchor=anchor, fill=fill, class_=ink and f"ink-{ink}")


def page(grid: Grid) -> str:
    """Return a self-contained page, made as reports are: the heat map and the figures as tables."""
    size = f"selection, {len(grid.examples)} examples × {grid.draws} draws, common draw keys"
    head = joined(
        tag("h1", "Weights by harness"),
        tag("p", f"Mean reward in per cent with 95 % intervals; {size}. A red frame marks the "
            "harness that the weights were trained under last.", class_="lead"),
    )  # fmt: skip
    sections = [
        pages.Section("heat", "Heat map", tag("div", drawn(grid), class_="scroll")),
        pages.Section("weights", "Weights under harnesses they were not trained with",
                      _table("harnesses found under them", grid.weights_transfer())),
        pages.Section("harnesses", "Harnesses under weights they were not found with",
                      _table("weights trained under them", grid.harness_transfer())),
    ]  # fmt: skip
    return pages.page("Weights by harness", head, sections)


def _table(related: str, figures: Sequence[CarryOver]) -> Markup:
    if not figures:
        return note("The runs have none that could be compared.")
    rows: list[Sequence[Content | Cell]] = [
        (
            Cell(clipped(each.subject, 80)),
            Cell(clipped(each.home, 80)),
            *(number(_points(gain), gain.mean) for gain in (each.own, each.others, each.excess)),
            Cell("") if each.related_gain is None
            else number(_points(each.related_gain), each.related_gain.mean),
        )
        for each in figures
    ]  # fmt: skip
    heads = ("", "made with", "gain there", "mean gain elsewhere", "excess", related)
    return joined(
        table(heads, rows, sortable=True),
        note("Points, paired by example. The last column is not among elsewhere."),
    )


def _top(grid: Grid) -> float:
    return max(grid.interval(row, column).mean for row in grid.rows for column in grid.columns)


def _shade(mean: float, top: float) -> int:
    return round((len(SHADES) - 1) * mean / top) if top else 0


def _percent(cell: Interval) -> str:
    return f"{100 * cell.mean:.1f} % ({_range(cell)})"


def _range(cell: Interval) -> str:
    return f"{100 * cell.low:.0f}–{100 * cell.high:.0f}"


def _points(gain: Interval) -> str:
    return f"{100 * gain.mean:+.1f} ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"

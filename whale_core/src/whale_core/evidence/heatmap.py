"""A grid as text, as an SVG image and as a page: means as shades, figures beneath."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from whale_core.evidence.grid import CarryOver, Grid
from whale_core.stats import Interval

SHADES = " ░▒▓█"
CELL_WIDTH, CELL_HEIGHT = 84, 44
LABEL_WIDTH, HEAD_HEIGHT = 260, 40
FONT = "font-family='system-ui, sans-serif' font-size='13'"


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
    """Return the heat map as an SVG image: a cell's shade is its mean, its text the interval too;
    the cell of a θ and the harness it was trained under last has a frame."""
    top = _top(grid)
    width = LABEL_WIDTH + CELL_WIDTH * len(grid.columns)
    height = HEAD_HEIGHT + CELL_HEIGHT * len(grid.rows) + 18 * (len(grid.columns) + 1)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' role='img' "
        f"aria-label='mean reward of weights by harness' {FONT}>"
    ]
    for x, _ in enumerate(grid.columns):
        at = LABEL_WIDTH + x * CELL_WIDTH + CELL_WIDTH // 2
        parts.append(f"<text x='{at}' y='26' text-anchor='middle'>c{x + 1}</text>")
    for y, row in enumerate(grid.rows):
        base = HEAD_HEIGHT + y * CELL_HEIGHT
        parts.append(f"<text x='4' y='{base + 27}'>{escape(row.label[:36])}</text>")
        for x, column in enumerate(grid.columns):
            cell, left = grid.interval(row, column), LABEL_WIDTH + x * CELL_WIDTH
            shade = cell.mean / top if top else 0.0
            light = round(97 - 62 * shade)
            ink = "#fff" if shade > 0.6 else "#111"
            frame = " stroke='#b00' stroke-width='3'" if column.harness_id == row.own else ""
            parts.append(
                f"<rect x='{left + 2}' y='{base + 2}' width='{CELL_WIDTH - 4}' "
                f"height='{CELL_HEIGHT - 4}' fill='hsl(215,60%,{light}%)'{frame}>"
                f"<title>{escape(row.label)} under {escape(column.label)}</title></rect>"
            )
            for line, text in ((19, f"{100 * cell.mean:.1f}"), (34, _range(cell))):
                parts.append(
                    f"<text x='{left + CELL_WIDTH // 2}' y='{base + line}' text-anchor='middle' "
                    f"fill='{ink}'>{text}</text>"
                )
    foot = HEAD_HEIGHT + CELL_HEIGHT * len(grid.rows)
    for x, column in enumerate(grid.columns):
        words = escape(f"c{x + 1}: {column.label} ({column.kind})")
        parts.append(f"<text x='4' y='{foot + 18 * (x + 1)}'>{words}</text>")
    return "\n".join([*parts, "</svg>\n"])


def page(grid: Grid) -> str:
    """Return a self-contained page: the heat map and the figures as tables."""
    tables = [
        _table(
            "Weights under harnesses they were not trained with",
            "harnesses found under them",
            grid.weights_transfer(),
        ),
        _table(
            "Harnesses under weights they were not found with",
            "weights trained under them",
            grid.harness_transfer(),
        ),
    ]
    size = f"selection, {len(grid.examples)} examples × {grid.draws} draws, common draw keys"
    return (
        "<!doctype html>\n<html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'><title>Weights by harness</title>"
        "<style>body{font:15px system-ui,sans-serif;margin:1.5rem;max-width:70rem}"
        "svg{width:100%;height:auto}td,th{padding:.2rem .7rem;text-align:left}</style>\n"
        f"<h1>Weights by harness</h1><p>Mean reward in per cent with 95 % intervals; {size}. "
        "A red frame marks the harness that the weights were trained under last.</p>\n"
        f"{svg(grid)}{''.join(tables)}</html>\n"
    )


def _table(title: str, related: str, figures: Sequence[CarryOver]) -> str:
    if not figures:
        return ""
    rows = "".join(
        f"<tr><td>{escape(each.subject)}<td>{escape(each.home)}<td>{_points(each.own)}"
        f"<td>{_points(each.others)}<td>{_points(each.excess)}"
        f"<td>{'' if each.related_gain is None else _points(each.related_gain)}"
        for each in figures
    )
    head = "<tr><th><th>made with<th>gain there<th>mean gain elsewhere<th>excess"
    head += f"<th>{related} (not among elsewhere)"
    return f"<h2>{title}</h2><p>Points, paired by example.</p><table>{head}{rows}</table>\n"


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

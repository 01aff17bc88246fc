"""Charts as inline SVG, in plain shapes: no script, no style of their own.

Colours and text sizes come from the page's style sheet by class, so that they follow dark mode,
print and the width of a phone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from attrs import frozen

from whale_core.evidence.report.markup import Content, Markup, tag

WIDTH, HEIGHT = 600.0, 290.0
LEFT, RIGHT, TOP, BOTTOM = 58.0, 20.0, 26.0, 46.0
BAR_WIDTH, BAR_HEIGHT = 200.0, 22.0
Scale = Callable[[float], float]
LABEL_ROOM = 26.0  # a ribbon narrower than this has no label


@frozen
class Mark:
    """A point of a chart: ``y`` with an interval where it has one; ``title`` is shown on hover. No
    line leads to one that ``begins`` a stretch."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    title: str = ""
    begins: bool = False


@frozen
class Series:
    """Points in order of x. ``kind`` is ``line``, with intervals as bars, or ``steps``: a value
    stands until the next point, and intervals are a band. ``colour`` is a class of the style."""

    name: str
    colour: str
    marks: Sequence[Mark]
    kind: str = "line"


@frozen
class Span:
    """A stretch of the x-axis, in the background."""

    start: float
    end: float
    colour: str
    label: str
    title: str


@frozen
class Level:
    """A horizontal reference line."""

    name: str
    y: float


def line_chart(
    series: Sequence[Series],
    title: str,
    x_label: str,
    spans: Sequence[Span] = (),
    levels: Sequence[Level] = (),
) -> Markup:
    """Return a chart of shares (0 to 1) over counts; an empty one where there is no point."""
    marks = [mark for each in series for mark in each.marks]
    if not marks:
        return tag("p", "Nothing has been measured yet.", class_="quiet")
    most_x = max([mark.x for mark in marks] + [span.end for span in spans]) or 1.0
    tops = [mark.y if mark.high is None else mark.high for mark in marks]
    most_y = min(1.0, _ceiling(max([*tops, *(level.y for level in levels), 0.02])))

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * value / most_x

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * min(value, most_y) / most_y

    parts: list[Content] = [tag("title", title)]
    parts += [_span(span, x) for span in spans]
    for tick in _ticks(most_y, 5):
        parts.append(_line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "grid"))
        parts.append(_text(LEFT - 6, y(tick) + 4, _share(tick), "end"))
    for tick in _ticks(most_x, 5):
        parts.append(_line(x(tick), HEIGHT - BOTTOM, x(tick), HEIGHT - BOTTOM + 4, "axis"))
        parts.append(_text(x(tick), HEIGHT - BOTTOM + 19, _count(tick), "middle"))
    parts.append(_line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM, "axis"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x_label, "middle"))
    for level in levels:
        parts.append(_line(LEFT, y(level.y), WIDTH - RIGHT, y(level.y), "level"))
        parts.append(_text(WIDTH - RIGHT - 4, y(level.y) - 5, level.name, "end", "level-name"))
    for each in series:
        parts += _series(each, x, y)
    return tag(
        "svg", *parts, class_="chart", viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", role="img",
        aria_label=title,
    )  # fmt: skip


def interval_bar(
    mean: float,
    low: float,
    high: float,
    least: float = 0.0,
    most: float = 1.0,
    marks: Sequence[Level] = (),
    colour: str = "c-main",
) -> Markup:
    """Return a mean with its interval on a scale from ``least`` to ``most``; ``marks`` and zero
    are vertical lines."""

    def x(value: float) -> float:
        share = (min(max(value, least), most) - least) / (most - least)
        return 4 + (BAR_WIDTH - 8) * share

    middle = BAR_HEIGHT / 2
    parts: list[Content] = [_line(x(least), middle, x(most), middle, "grid")]
    parts.append(_line(x(0.0), 3, x(0.0), BAR_HEIGHT - 3, "axis"))
    for mark in marks:
        line = _line(x(mark.y), 1, x(mark.y), BAR_HEIGHT - 1, "level")
        parts.append(tag("g", tag("title", f"{mark.name}: {_share(mark.y)}"), line))
    parts.append(_line(x(low), middle, x(high), middle, f"reach {colour}"))
    for end in (low, high):
        parts.append(_line(x(end), middle - 4, x(end), middle + 4, f"reach {colour}"))
    parts.append(tag("circle", cx=x(mean), cy=middle, r=4.5, class_=f"dot {colour}"))
    return tag(
        "svg", *parts, class_="bar", viewBox=f"0 0 {BAR_WIDTH:g} {BAR_HEIGHT:g}",
        aria_hidden="true",
    )  # fmt: skip


def strip(
    values: Sequence[float],
    mean: float,
    ends: tuple[float, float] | None,
    most: float,
    levels: Sequence[float],
    colour: str,
) -> Markup:
    """Return several values as small dots and their mean as a large one, on a scale from 0."""

    def x(value: float) -> float:
        return 6 + (BAR_WIDTH - 12) * min(value, most) / most

    middle = BAR_HEIGHT / 2
    parts: list[Content] = [_line(x(0.0), middle, x(most), middle, "grid")]
    parts.append(_line(x(0.0), 3, x(0.0), BAR_HEIGHT - 3, "axis"))
    parts += [_line(x(level), 1, x(level), BAR_HEIGHT - 1, "level") for level in levels]
    if ends is not None:
        parts.append(_line(x(ends[0]), middle, x(ends[1]), middle, f"reach {colour}"))
    parts += [
        tag("circle", cx=x(value), cy=middle, r=2.6, class_=f"dot seed {colour}")
        for value in values
    ]
    parts.append(tag("circle", cx=x(mean), cy=middle, r=5, class_=f"dot {colour}"))
    return tag(
        "svg", *parts, class_="bar", viewBox=f"0 0 {BAR_WIDTH:g} {BAR_HEIGHT:g}",
        aria_hidden="true",
    )  # fmt: skip


def share_bar(share: float, colour: str = "c-main") -> Markup:
    """Return a share (0 to 1) as a filled bar, for a table's cell."""
    width = 60.0 * min(max(share, 0.0), 1.0)
    return tag(
        "svg",
        tag("rect", x=0, y=0, width=60, height=8, class_="trough"),
        tag("rect", x=0, y=0, width=width, height=8, class_=f"fill {colour}"),
        class_="meter", viewBox="0 0 60 8", aria_hidden="true",
    )  # fmt: skip


def legend(entries: Sequence[tuple[str, str, str]]) -> Markup:
    """Return a legend of (shape, colour, words); shapes are ``line``, ``area`` and ``dashed``."""
    items = []
    for shape, colour, words in entries:
        if shape == "area":
            drawn = tag("rect", x=0, y=2, width=18, height=10, class_=f"span {colour}")
        elif shape == "dashed":
            drawn = _line(0, 7, 18, 7, "level")
        else:
            drawn = tag(
                "g",
                _line(0, 7, 18, 7, f"trace {colour}"),
                tag("circle", cx=9, cy=7, r=3, class_=f"dot {colour}"),
            )
        icon = tag("svg", drawn, class_="key", viewBox="0 0 18 14", aria_hidden="true")
        items.append(tag("li", icon, words))
    return tag("ul", *items, class_="legend")


def _series(series: Series, x: Scale, y: Scale) -> list[Content]:
    parts: list[Content] = []
    marks = list(series.marks)
    bounded = [m for m in marks if m.low is not None and m.high is not None]
    if series.kind == "steps" and len(bounded) > 1:
        there = _corners([(x(m.x), y(m.high or 0.0)) for m in bounded])
        back = _corners([(x(m.x), y(m.low or 0.0)) for m in bounded])
        points = " ".join(f"{px:.1f},{py:.1f}" for px, py in [*there, *reversed(back)])
        parts.append(tag("polygon", points=points, class_=f"band {series.colour}"))
    elif series.kind != "steps":
        for m in bounded:
            line = _line(x(m.x), y(m.low or 0.0), x(m.x), y(m.high or 0.0), "reach")
            parts.append(tag("g", line, class_=series.colour))
    path = ""
    for index, mark in enumerate(marks):
        new = mark.begins or not index
        if series.kind == "steps" and not new:
            path += f"H{x(mark.x):.1f}"
        path += f"{'M' if new else 'L'}{x(mark.x):.1f} {y(mark.y):.1f}"
    if len(marks) > 1:
        parts.append(tag("path", d=path, class_=f"trace {series.colour}"))
    if len(marks) <= 80:
        for mark in marks:
            dot = tag("circle", cx=x(mark.x), cy=y(mark.y), r=3.2, class_=f"dot {series.colour}")
            parts.append(tag("g", tag("title", mark.title), dot) if mark.title else dot)
    return parts


def _corners(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the corners of the steps through points: each value stands until the next."""
    corners = [points[0]]
    for at, value in points[1:]:
        corners += [(at, corners[-1][1]), (at, value)]
    return corners


def _span(span: Span, x: Scale) -> Markup:
    left, right = x(span.start), x(span.end)
    label = None
    if right - left >= LABEL_ROOM:
        label = _text((left + right) / 2, TOP - 9, span.label, "middle", "span-name")
    area = tag(
        "rect", x=left, y=TOP, width=max(0.0, right - left), height=HEIGHT - TOP - BOTTOM,
        class_=f"span {span.colour}",
    )  # fmt: skip
    return tag("g", tag("title", span.title), area, label)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def _text(x: float, y: float, words: str, anchor: str, kind: str | None = None) -> Markup:
    return tag("text", words, x=x, y=y, text_anchor=anchor, class_=kind)


def _ceiling(value: float) -> float:
    """Return the next round number above: 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    steps = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
    return next(step * power for step in steps if step * power >= value * 0.999)


def _ticks(most: float, number: int) -> list[float]:
    """Return at most ``number`` + 1 round values from 0 to ``most``."""
    raw = most / number
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw * 0.999)
    return [index * step for index in range(int(most / step + 1e-9) + 1)]


def _share(value: float) -> str:
    return f"{100 * value:.3g} %"


def _count(value: float) -> str:
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= 10 * size or (value >= size and unit == "M"):
            return f"{value / size:g} {unit}"
    return f"{value:g}"

"""Text made safe for a terminal, and numbers made short.

What a model or a plugin wrote may hold control sequences, direction marks or a novel; a terminal
gets none of them.
"""

from __future__ import annotations

from collections.abc import Sequence

SPARKS = "▁▂▃▄▅▆▇█"


def printable(text: str, limit: int = 160) -> str:
    """Return ``text`` as one bounded line of printable characters."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def block(text: str) -> str:
    """Return ``text`` with its lines kept; what is not printable is shown as an escape.

    Nothing is left out, so that what a model wrote can be read as it wrote it.
    """
    lines = text.expandtabs(4).split("\n")
    return "\n".join("".join(map(_visible, line)) for line in lines)


def _visible(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]


def percent(share: float) -> str:
    """Return a share in per cent with one decimal."""
    return f"{100 * share:.1f} %"


def duration(seconds: float) -> str:
    """Return ``m:ss``, or ``h:mm:ss`` from an hour on."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def count(number: int) -> str:
    """Return a count with thin groups of three: 12 345."""
    return f"{number:,}".replace(",", " ")


def plural(number: int, unit: str) -> str:
    """Return ``1 step``, ``2 steps``."""
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"


def sparkline(values: Sequence[float], width: int = 32) -> str:
    """Return the last ``width`` values (shares) as bars, from 0 to the largest of them."""
    shown = list(values)[-width:]
    top = max(shown, default=0.0)
    if top <= 0.0:
        return SPARKS[0] * len(shown)
    last = len(SPARKS) - 1
    return "".join(SPARKS[min(last, max(0, round(each / top * last)))] for each in shown)

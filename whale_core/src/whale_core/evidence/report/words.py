"""Numbers and names as a report writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whale_core.records import Json

CORNERS = {
    "theta0_h0": ("initial weights, base harness", "(θ0, h0)"),
    "theta0_h": ("initial weights, final harness", "(θ0, h)"),
    "theta_h0": ("final weights, base harness", "(θ, h0)"),
    "theta_h": ("final weights, final harness", "(θ, h)"),
}
KINDS = {"start": "start", "weights": "weights", "harness": "harness"}


def percent(share: float | None) -> str:
    """Return a share in per cent with one decimal; a dash for none."""
    return "–" if share is None else f"{100 * share:.1f} %"


def points(difference: float | None) -> str:
    """Return a difference of shares in points, with its sign."""
    return "–" if difference is None else f"{100 * difference:+.1f}".replace("-", "−")


def interval(low: float, high: float) -> str:
    """Return the ends of an interval of shares, in per cent."""
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def point_interval(low: float, high: float) -> str:
    """Return the ends of an interval of differences, in points."""
    return f"{points(low)} to {points(high)}"


def count(number: float) -> str:
    """Return a whole number with narrow groups of three."""
    return f"{round(number):,}".replace(",", "\u202f") if number else "0"


def short(number: float) -> str:
    """Return a large number in thousands or millions, for prose."""
    for size, unit in ((1e9, "billion"), (1e6, "million")):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return count(number)


def usd(amount: float) -> str:
    """Return an amount of money; small ones with more digits."""
    if not amount:
        return "0"
    return f"{amount:.2f}" if amount >= 0.995 else f"{amount:.3g}"


def duration(seconds: float) -> str:
    """Return seconds as ``12 s``, ``3 min 20 s`` or ``2 h 5 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def p_value(p: float | None) -> str:
    """Return a p value as it is usually written."""
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def rate(value: float | None) -> str:
    """Return points per unit, with three digits or as a whole number, and a sign."""
    if value is None:
        return "–"
    sign = "−" if value < 0 else "+"
    return sign + (count(abs(value)) if abs(value) >= 1_000 else f"{abs(value):.3g}")


def ordinal(number: int) -> str:
    """Return ``1st``, ``2nd``, ``11th``."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ends.get(number % 10, 'th')}"


def plural(number: int, unit: str) -> str:
    """Return ``1 step``, ``2 steps``."""
    return f"{count(number)} {unit}" if number == 1 else f"{count(number)} {unit}s"


def same_pair(pairs: Mapping[str, Mapping[str, Json]], a: str, b: str) -> bool:
    """Say whether two corners are one pair: equal harness and equal weights."""
    return all(
        pairs.get(a, {}).get(key) == pairs.get(b, {}).get(key)
        for key in ("harness_id", "weights_id")
    )


NO_DIFFERENCE = "All four corners are one pair: there is no difference to show."


def same_as(pairs: Mapping[str, Mapping[str, Json]], name: str) -> str | None:
    """Return the first other corner that is the same pair as ``name``; None if there is none."""
    return next((each for each in CORNERS if each != name and same_pair(pairs, name, each)), None)


def told_differences(
    differences: Sequence[Mapping[str, Json]], pairs: Mapping[str, Mapping[str, Json]]
) -> list[Mapping[str, Json]]:
    """Return the differences between pairs that differ, each two pairs once."""
    shown, told = [], set()
    for each in differences:
        ends = tuple(
            (pairs[n]["harness_id"], pairs[n]["weights_id"]) for n in (each["a"], each["b"])
        )
        if each["mean"] is not None and ends[0] != ends[1] and ends not in told:
            told.add(ends)
            shown.append(each)
    return shown

"""Safe text and short numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from whale_core.cli.text import count, duration, percent, printable, sparkline


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_any_text_becomes_one_bounded_printable_line(text: str, limit: int) -> None:
    line = printable(text, limit)
    assert len(line) <= limit and line.isprintable()


def test_control_sequences_and_direction_marks_are_gone() -> None:
    assert printable("a\x1b[2Jb\r\nc\u202ed") == "a [2Jb c d"


@given(st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=60))
def test_a_sparkline_has_one_bar_per_value(values: list[float]) -> None:
    line = sparkline(values, width=40)
    assert len(line) == min(40, len(values))
    if max(values[-40:]) > 0.01:
        assert line[values[-40:].index(max(values[-40:]))] == "█"


def test_numbers_are_short() -> None:
    assert sparkline([0.0, 0.0]) == "▁▁" and sparkline([]) == ""
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert (percent(0.0414), percent(1.0)) == ("4.1 %", "100.0 %")
    assert (duration(59.9), duration(61), duration(3600), duration(-3)) == (
        "0:59",
        "1:01",
        "1:00:00",
        "0:00",
    )
    assert count(1234567) == "1 234 567"

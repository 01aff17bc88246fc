"""The converter alone: properties that hold for any value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen
from attrs.validators import ge
from hypothesis import given
from hypothesis import strategies as st

from whale_core.config.structure import INVALID, structure, unstructure


@frozen
class Inner:
    weights: tuple[float, ...] = ()
    pair: tuple[int, str] = (0, "")


@frozen
class Outer:
    needed: int
    flag: bool = False
    text: str | None = None
    where: Path = Path("here")
    inner: Inner = field(factory=Inner)
    table: Mapping[str, list[int]] = field(factory=dict)
    size: int = field(default=1, validator=ge(1))

    @size.validator
    def _odd(self, attribute: Any, value: int) -> None:
        if value % 2 == 0:
            raise ValueError(f"must be odd with needed={self.needed}")


whole = st.integers(-(2**63) + 1, 2**63 - 1)
values = st.builds(
    Outer,
    needed=whole,
    flag=st.booleans(),
    text=st.none() | st.text(),
    where=st.sampled_from([Path("a"), Path("/b/c")]),
    inner=st.builds(
        Inner,
        weights=st.lists(st.floats(allow_nan=False, allow_infinity=False)).map(tuple),
        pair=st.tuples(whole, st.text()),
    ),
    table=st.dictionaries(st.text(), st.lists(whole)),
    size=st.integers(min_value=0, max_value=99).map(lambda n: 2 * n + 1),
)


@given(values)
def test_plain_values_and_back(value: Outer) -> None:
    problems: list[str] = []
    assert structure(unstructure(value), Outer, "", problems) == value
    assert problems == []


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
keys = st.sampled_from(["needed", "flag", "text", "where", "inner", "table", "size", "other"])


@given(st.dictionaries(keys, anything))
def test_whatever_comes_is_either_made_or_reported(given_values: dict[str, Any]) -> None:
    problems: list[str] = []
    made = structure(given_values, Outer, "top", problems)
    assert (made is INVALID) == bool(problems)
    assert all(each.startswith("top.") and "\n" not in each for each in problems)
    if made is not INVALID:
        plain = unstructure(made)
        changed = ("inner", "where")  # defaults are filled in; a path is normalised
        assert all(plain[key] == value for key, value in given_values.items() if key not in changed)


def test_a_missing_value_and_a_validator_that_looks_at_others() -> None:
    problems: list[str] = []
    assert structure({"size": 2}, Outer, "", problems) is INVALID
    assert problems == ["needed: missing"]
    problems.clear()
    assert structure({"needed": 5, "size": 2}, Outer, "", problems) is INVALID
    assert problems == ["size: must be odd with needed=5"]


@frozen
class Range:
    low: int = 1
    high: int = field(default=5)

    @high.validator
    def _above(self, attribute: Any, value: int) -> None:
        if value < self.low:
            raise ValueError(f"must be >= low={self.low}")


def test_a_default_that_does_not_fit_what_is_given_is_reported() -> None:
    problems: list[str] = []
    assert structure({"low": 6}, Range, "top", problems) is INVALID
    assert problems == ["top.high: must be >= low=6"]
    problems.clear()
    assert structure({"low": "6"}, Range, "top", problems) is INVALID
    assert problems == ["top.low: expected int, got str '6'"]

"""Leaving plugins out by environment variables."""

from __future__ import annotations

import pytest

from whale_core.errors import InputError
from whale_core.plugins.selection import Selection, read_selection

INSTALLED = ("Acme-Chess", "acme_math")


@pytest.mark.parametrize(
    ("environment", "selection"),
    [
        ({}, Selection()),
        ({"WHALE_DISABLE_PLUGINS": " , ", "WHALE_LOAD_ONLY": ""}, Selection()),
        ({"WHALE_DISABLE_PLUGINS": "acme.chess"}, Selection(frozenset({"acme-chess"}))),
        (
            {"WHALE_LOAD_ONLY": "ACME-math,whale-core"},
            Selection(only=frozenset({"acme-math", "whale-core"})),
        ),
    ],
)
def test_the_variables_are_read(environment: dict[str, str], selection: Selection) -> None:
    assert read_selection(environment, INSTALLED) == selection


def test_both_count_together() -> None:
    both = Selection(frozenset({"acme-chess"}), frozenset({"acme-chess", "other"}))
    assert both.left_out_by("Acme_Chess") == "WHALE_DISABLE_PLUGINS"
    assert both.left_out_by("other") == ""
    assert both.left_out_by("third") == "WHALE_LOAD_ONLY"
    assert Selection().left_out_by("third") == ""


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        (
            {"WHALE_DISABLE_PLUGINS": "acme-ches"},
            "WHALE_DISABLE_PLUGINS: no installed distribution with plugins is called 'acme-ches', "
            "did you mean 'acme-chess'?",
        ),
        ({"WHALE_DISABLE_PLUGINS": "whale_core"}, "WHALE_DISABLE_PLUGINS: whale-core cannot be"),
        ({"WHALE_LOAD_ONLY": "acme-math,zzz"}, "WHALE_LOAD_ONLY: no installed .* called 'zzz'"),
    ],
)
def test_a_wrong_name_is_bad_input(environment: dict[str, str], told: str) -> None:
    with pytest.raises(InputError, match=told.replace("?", r"\?")) as error:
        read_selection(environment, INSTALLED)
    assert error.value.exit_code == 2

"""The plugin sets that come with the core: readable, and of the right shape."""

from __future__ import annotations

import pytest

from whale_core.config.layers import parse
from whale_core.config.resolve import CORE_KEYS, IN_DOMAIN, REQUIRED_ROLES
from whale_core.config.settings import CoreSettings
from whale_core.config.structure import structure
from whale_core.plugins.builtin import whale_register_plugin_sets
from whale_core.plugins.manager import ROLES
from whale_core.plugins.sets import PluginSet

SETS = {each.name: each for each in whale_register_plugin_sets()}
METHOD_ROLES = {
    "default": {"model_update", "harness_search", "proposer"},
    "fst": {"model_update", "harness_search", "proposer"},
    "weight-only": {"model_update"},
    "harness-only": {"harness_search", "proposer"},
    "smoke": {"model_update", "harness_search", "proposer"},
}


@pytest.mark.parametrize("shipped", SETS.values(), ids=str)
def test_a_shipped_set_fills_its_roles(shipped: PluginSet) -> None:
    tree = parse(shipped.read(), shipped.name)
    assert set(tree) <= {*ROLES, *CORE_KEYS, IN_DOMAIN}
    assert {role for role in ROLES if role in tree} == {
        *REQUIRED_ROLES,
        *METHOD_ROLES[shipped.name],
    }
    assert all(isinstance(tree[role]["name"], str) for role in ROLES if role in tree)
    problems: list[str] = []
    structure({k: tree[k] for k in CORE_KEYS if k in tree}, CoreSettings, "", problems)
    assert problems == []


def test_the_single_conditions_share_the_settings_of_default() -> None:
    default = parse(SETS["default"].read(), "default")
    for name in ("weight-only", "harness-only"):
        single = parse(SETS[name].read(), name)
        shared = [key for key in single if key not in ("scheduler", IN_DOMAIN)]
        for domain, settings in single[IN_DOMAIN].items():
            assert settings.items() <= default[IN_DOMAIN][domain].items()
        assert {key: single[key] for key in shared} == {key: default[key] for key in shared}


def test_fst_is_default_with_prompts_alone() -> None:
    default, fst = (parse(SETS[name].read(), name) for name in ("default", "fst"))
    default["harness_search"]["space"] = "prompt-only"
    assert fst == default

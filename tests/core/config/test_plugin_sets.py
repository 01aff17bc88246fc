"""The plugin sets that come with the core: readable, and of the right shape."""

from __future__ import annotations

import pytest

from whale_core.config.plugin_sets import SetLayers, read_set
from whale_core.config.resolve import CORE_KEYS, REQUIRED_ROLES
from whale_core.config.settings import CoreSettings
from whale_core.config.structure import structure
from whale_core.plugins import builtin
from whale_core.plugins.manager import ROLES, Plugins
from whale_core.plugins.registered import Origin

NAMES = tuple(each.name for each in builtin.whale_register_plugin_sets())
ALL = {"model_update", "harness_search", "proposer"}
PARTS: dict[str, set[str]] = {
    "weight-only": {"model_update"},
    "harness-only": {"harness_search", "proposer"},
    "best-of-n": set(),
    "null": set(),
}


def read(name: str) -> SetLayers:
    plugins = Plugins()
    plugins.add(builtin, Origin("whale-core", "0", "test"))
    return read_set(plugins, name)


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_set_fills_its_roles(name: str) -> None:
    tree = read(name).layer
    assert set(tree) <= {*ROLES, *CORE_KEYS}
    filled = {role for role in ROLES if tree.get(role) is not None}
    method = next((own for end, own in PARTS.items() if name.endswith(end)), ALL)
    assert filled == {*REQUIRED_ROLES, *method}
    assert all(isinstance(tree[role]["name"], str) for role in filled)
    problems: list[str] = []
    structure({k: tree[k] for k in CORE_KEYS if k in tree}, CoreSettings, "", problems)
    assert problems == []

from __future__ import annotations

import importlib
import subprocess
import sys

import pluggy

from whale_metaharness import plugin


def test_registrations_name_things_that_exist() -> None:
    items = [*plugin.whale_register_harness_searches(), *plugin.whale_register_proposers()]
    assert [item.name for item in items] == [
        *("meta-harness", "mutation", "anthropic", "openai"),
        *("random", "single-edits", "replay", "manual", "policy", "claude-code"),
    ]
    for item in items:
        for reference in (item.factory, item.config):
            module, name = reference.split(":")
            assert hasattr(importlib.import_module(module), name)
        module, name = item.config.split(":")
        getattr(importlib.import_module(module), name)()  # every setting has a default


def test_the_hooks_are_marked() -> None:
    manager = pluggy.PluginManager("whale")
    manager.register(plugin)
    assert [hook.name for hook in manager.get_hookcallers(plugin) or []] == [
        *("whale_register_harness_searches", "whale_register_proposers"),
    ]


def test_the_entry_point_imports_no_plugin() -> None:
    code = (
        "import sys, whale_metaharness.plugin\n"
        "found = [name for name in sys.modules if name.startswith('whale_metaharness.')]\n"
        "print(found, 'cattrs' in sys.modules)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == "['whale_metaharness.plugin'] False"

"""Leaving out what a run does not use changes nothing about it; the list stays light."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from whale_core.config import resolve
from whale_core.plugins.manager import load_plugins

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence" / "default"
HEAVY = ("torch", "transformers", "omegaconf", "scipy", "chess", "yaml")


def test_what_is_stored_of_a_run_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = resolve(load_plugins(), "smoke", [], [])
    monkeypatch.setenv("WHALE_DISABLE_PLUGINS", "whale-chess")
    left = resolve(load_plugins(), "smoke", [], [])
    assert left.to_yaml() == whole.to_yaml()
    assert left.settings_hash() == whole.settings_hash()
    origins = {role: each.registered.origin for role, each in whole.chosen.items()}
    assert {role: each.registered.origin for role, each in left.chosen.items()} == origins


@pytest.mark.parametrize("plan", sorted(EVIDENCE.glob("*/plan.json")), ids=lambda p: p.parent.name)
def test_published_results_have_the_settings_hash_of_today_s_default(plan: Path) -> None:
    """A setting that was added since is not in it (``whale_core.config.later``)."""
    resolved = resolve(load_plugins(), "default", [], [f"domain={plan.parent.name}"])
    assert resolved.settings_hash() == json.loads(plan.read_text())["settings_hash"]


def test_a_later_setting_counts_once_it_is_used() -> None:
    plugins = load_plugins()

    def settings_hash(*overrides: str) -> str:
        return resolve(plugins, "smoke", [], overrides).settings_hash()

    assert settings_hash("model_update.lora.rank=0") == settings_hash()
    assert settings_hash("model_update.lora.rank=4") != settings_hash()


def test_listing_plugins_imports_nothing_heavy() -> None:
    program = f"""
import sys
from whale_core.cli.main import main
assert main(["plugins"]) == 0
print("loaded:", [name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded: []"
    assert " ok " in done.stdout and " broken " not in done.stdout

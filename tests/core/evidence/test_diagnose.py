"""The diagnosis in worlds whose limiting coordinate is known, and what a probe leaves alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from worlds_kit import LetterEngine, settings

from whale_core.config import resolve
from whale_core.evidence.probe import Budget, probe_set
from whale_core.plugins.manager import load_plugins

WORLDS: dict[str, tuple[Mapping[str, Any], str]] = {
    # always right, always hidden: training cannot even begin
    "harness-limited": ({"w": 6.0, "clutter": 1.0}, "letters"),
    # never hidden, rarely right
    "weight-limited": ({"w": -1.0, "clutter": 0.0}, "letters"),
    # half hidden, half right: each alone gives a quarter, both together all
    "both-limited": ({"w": 0.0, "clutter": 0.5}, "letters"),
    # always hidden, and no edit reads past it
    "starved": ({"w": 0.0, "clutter": 1.0}, "deaf"),
}


@pytest.mark.parametrize("verdict", WORLDS)
def test_the_diagnosis_is_right(verdict: str, engines: list[LetterEngine]) -> None:
    world, domain = WORLDS[verdict]
    plugins = load_plugins()
    resolved = resolve(plugins, settings(world, domain={"name": domain}), [], {})
    probed = probe_set(resolved, plugins, Budget(rollouts=96, examples=48, draws=2))
    print(probed.as_json())
    assert probed.diagnosis.verdict == verdict

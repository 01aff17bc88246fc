"""``whale doctor`` on the real parts of the plugin set ``smoke``."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

Whale = Callable[..., subprocess.CompletedProcess[str]]


def test_the_set_smoke_works_here(whale: Whale) -> None:
    done = whale("doctor", "--plugin-set", "smoke", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    states = {check["name"]: check["state"] for check in report["checks"]}
    assert report["passed"] and len(states) == 24
    # A machine may lack memory, cores or user namespaces; the engine's promises hold anywhere.
    for name in ("chat template", "batch invariance", "log-probabilities", "served weights"):
        assert states[name] == "ok", report


def test_a_missing_model_is_one_failure_with_its_fix(whale: Whale) -> None:
    done = whale("doctor", "--plugin-set", "smoke", "engine.model=./nowhere")
    assert done.returncode == 2
    assert "✗ engine" in done.stdout and "no such folder" in done.stdout
    assert "1 of 24 checks failed: engine" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr

"""Entry points name small modules: importing one costs little and warns of nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"anthropic", "chess", "openai", "torch", "transformers"}


def modules_after_import(module: str, environment: dict[str, str]) -> set[str]:
    """Import ``module`` in a new process with warnings as errors; return what it pulled in."""
    code = f"import sys, {module}; print(*sys.modules)"
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


def test_plugin_modules_are_light(distribution, clean_environment):
    for module in distribution.plugin_modules:
        assert not modules_after_import(module, clean_environment) & HEAVY


@pytest.mark.parametrize("module", ["whale_core", "whale_core.cli.main"])
def test_the_core_is_light(module, clean_environment):
    assert not modules_after_import(module, clean_environment) & HEAVY


def test_the_harness_sdk_is_standard_library_at_run_time_too(clean_environment):
    added = modules_after_import("whale_harness", clean_environment)
    added -= modules_after_import("sys", clean_environment)
    roots = {name.split(".")[0] for name in added}
    assert roots - {"whale_harness"} <= sys.stdlib_module_names

"""A plugin set that the command line can resolve, and a run that only reports events."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for doctor_kit

PARTS = """
from attrs import frozen
from whale_core.plugins import Registration, hookimpl
from whale_core.plugins.sets import PluginSet

@frozen
class Config:
    size: int = 3

def _one(name):
    return [Registration(name, "acme_cli:Config", "acme_cli:Config", "for a test")]

@hookimpl
def whale_register_domains(): return _one("acme")
@hookimpl
def whale_register_verifiers(): return _one("acme")
@hookimpl
def whale_register_rollout_engines(): return _one("acme")
@hookimpl
def whale_register_schedulers(): return _one("acme")
@hookimpl
def whale_register_plugin_sets():
    return [PluginSet("acme", __file__.replace(".py", ".yaml"), "for a test")]
"""
SET = "{domain: acme, verifier: acme, engine: acme, scheduler: acme}\n"


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install the distribution ``acme-cli``; the working folder is a fresh one."""
    site = tmp_path / "site"
    info = site / "acme_cli-1.2.dist-info"
    info.mkdir(parents=True)
    (site / "acme_cli.py").write_text(PARTS)
    (site / "acme_cli.yaml").write_text(SET)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-cli\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[whale]\nacme = acme_cli\n")
    monkeypatch.syspath_prepend(site)
    importlib.invalidate_caches()
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    yield site
    sys.modules.pop("acme_cli", None)

"""The README's examples work and its links lead somewhere."""

from __future__ import annotations

import re
import sys
from importlib import import_module

import pytest

from whale_core.plugins import Registration, Setup
from whale_core.roles import HarnessPhase, PhaseResult, RunFacts, WeightPhase

BLOCK = re.compile(r"```python\n# (\S+)\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)\)")
SET_ROW = re.compile(r"^\| `([\w-]+)` \|", re.MULTILINE)


@pytest.fixture
def example_package(root, tmp_path, monkeypatch):
    """The plugin package that the README shows, importable."""
    blocks = BLOCK.findall((root / "README.md").read_text())
    assert [path for path, _ in blocks] == ["acme_whale/plugin.py", "acme_whale/schedule.py"]
    for path, source in blocks:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "acme_whale"]:
        del sys.modules[name]


def test_the_example_plugin_registers_and_runs(example_package):
    (registration,) = import_module("acme_whale.plugin").whale_register_schedulers()
    assert isinstance(registration, Registration)
    factory, config = map(load, (registration.factory, registration.config))
    phases = factory(config(steps=2), Setup(seed=0)).phases(RunFacts(steps_per_epoch=5))

    first = next(phases)
    assert isinstance(first, WeightPhase)
    assert first.until.planned() == 2
    assert [first.until.observe(0.5) for _ in range(2)] == [False, True]
    second = phases.send(PhaseResult(kind="weights", cycle=1, length=2, signals=(0.5, 0.5)))
    assert isinstance(second, HarnessPhase)
    with pytest.raises(StopIteration):
        phases.send(PhaseResult(kind="harness", cycle=1, length=3, signals=(0.1, 0.2, 0.3)))


def load(reference):
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


@pytest.mark.parametrize("page", ["README.md", "docs/development.md", "docs/method.md"])
def test_links_lead_to_files(root, page):
    path = root / page
    broken = [link for link in LINK.findall(path.read_text()) if not (path.parent / link).exists()]
    assert not broken


def test_every_plugin_set_is_in_the_table(root):
    listed = set(SET_ROW.findall((root / "README.md").read_text()))
    shipped = root / "whale_core" / "src" / "whale_core" / "plugin_sets"
    assert listed == {path.stem for path in shipped.glob("*.yaml")}

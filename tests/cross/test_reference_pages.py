"""The pages made from the code say what the code says, and the code says enough."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import ClassVar, Literal

import pytest
from attrs import field, frozen, validators

from whale_core.config.reference import Setting, settings_of
from whale_core.config.settings import CoreSettings
from whale_core.plugins import hookspecs
from whale_core.plugins.manager import ROLES, load_plugins

SCRIPT = Path(__file__).parents[2] / "scripts" / "reference_pages.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_pages", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_what_the_code_says() -> None:
    command = [sys.executable, SCRIPT, "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), f"{done.stdout}: run {SCRIPT.name}"


def test_every_setting_of_ours_says_what_it_means(script: ModuleType) -> None:
    plugins, ours = load_plugins(), script.our_distributions()
    classes = {"core": CoreSettings}
    for role in ROLES:
        for each in plugins.registrations(role).values():
            if each.distribution in ours:
                classes[f"{role} {each.name}"] = plugins.config_class(each)
    silent = {
        f"{name}: {setting.key}"
        for name, cls in classes.items()
        for setting in settings_of(cls)
        if not setting.doc
    }
    assert silent == set(), "write what a setting means as a string directly below it"


def test_every_hook_is_on_the_page(script: ModuleType) -> None:
    page = script.hooks_page()
    hooks = [name for name in vars(hookspecs) if name.startswith("whale_")]
    assert len(hooks) == 20
    for name in hooks:
        section = page.partition(f"### `{name}`")[2].partition("\n### ")[0]
        assert all(f"**{fact}**" in section for fact in script.FACTS), name


def one(phase: int) -> None:
    """Take notice.

    When: now and
        then.
    How often: ``twice``.

    Args:
        phase: a number,
            from 1.
    """


def test_a_hook_s_docstring_is_read_and_checked(script: ModuleType) -> None:
    text = "\n".join(script.hook("one", one, hookspecs.OBSERVER))
    assert "`one(phase: int) -> None`" in text
    assert "| **When** | now and then. |" in text and "| **How often** | `twice`. |" in text
    assert "| `phase` | a number, from 1. |" in text
    with pytest.raises(ValueError, match="one does not state: Order, May change, Errors"):
        list(script.hook("one", one, {}))

    def other(phase: int, step: int) -> None: ...

    other.__doc__ = one.__doc__
    with pytest.raises(ValueError, match="its docstring names"):
        list(script.hook("other", other, hookspecs.OBSERVER))


@frozen
class Inner:
    depth: int = field(default=2, validator=validators.and_(validators.ge(1), validators.lt(9)))
    """How deep."""


@frozen
class Base:
    """Something."""

    needs: ClassVar[tuple[str, ...]] = ()
    size: float = 0.5
    """How large it is;
    in metres."""


@frozen
class Config(Base):
    kind: str = field(default="a", validator=validators.in_(("a", "b")))
    dtype: Literal["x", "y"] = "x"
    """A type."""
    names: tuple[str, ...] | None = ()
    path: Path = Path("here")
    inner: Inner = field(factory=Inner)
    """Not asked: what is inside counts."""


def test_settings_are_read_with_types_limits_and_meaning() -> None:
    assert settings_of(Config) == [
        Setting("size", "number", "0.5", "How large it is; in metres."),
        Setting("kind", '"a" or "b"', '"a"', ""),
        Setting("dtype", '"x" or "y"', '"x"', "A type."),
        Setting("names", "list of text or null", "[]", ""),
        Setting("path", "path", '"here"', ""),
        Setting("inner.depth", "integer ≥ 1 and < 9", "2", "How deep."),
    ]

"""Trackers: registered by anybody, named by settings, told of that run alone, and closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve, frozen

from whale_core.config import CoreSettings, Resolved
from whale_core.config.missing import tracker_problems
from whale_core.config.settings import TrackersSettings
from whale_core.errors import PluginError
from whale_core.plugins import Registration, Setup, hookimpl
from whale_core.plugins.manager import TRACKER, Plugins
from whale_core.plugins.registered import Origin
from whale_core.run.trackers import build_trackers, followed_by


@frozen
class Config:
    """What the core hands on."""

    prefix: str = ""
    x: str = ""


class Mine:
    """Keeps what it is told; ``fails`` when it is closed."""

    def __init__(self, config: Config, setup: Setup, fails: bool = False) -> None:
        self.config, self.fails, self.told = config, fails, []  # type: ignore[var-annotated]

    @hookimpl
    def whale_on_notice(self, text: str) -> None:
        self.told.append(text)

    async def close(self) -> None:
        self.told.append("closed")
        if self.fails:
            raise OSError("no connection")


def failing(config: Config, setup: Setup) -> Mine:
    return Mine(config, setup, fails=True)


def nothing(config: Config, setup: Setup) -> object:
    return object()


class Acme:
    """A third party's plugin."""

    @hookimpl
    def whale_register_trackers(self) -> list[Registration]:
        made: dict[str, Callable[..., Any]] = {"acme": Mine, "broken": failing, "empty": nothing}
        return [Registration(name, factory, Config, name) for name, factory in made.items()]


def acme() -> Plugins:
    plugins = Plugins()
    plugins.add(Acme(), Origin("acme-tracker", "1", "main"))
    assert not plugins.failures
    return plugins


def resolved(*names: str) -> Resolved:
    core = evolve(CoreSettings(), trackers=TrackersSettings(use=names, prefix="p/", x="tokens"))
    return Resolved({}, core, {}, "none")


def test_those_named_are_told_within_the_run_and_closed_after_it() -> None:
    plugins = acme()
    failed: list[tuple[str, str]] = []
    plugins.hooks.on_observer_error = lambda name, hook, error: failed.append((name, hook))
    made: Any = build_trackers(resolved("broken", "acme"), plugins)
    assert list(made) == ["tracker broken", "tracker acme"]
    assert made["tracker acme"].config == Config("p/", "tokens")
    plugins.hooks.on_notice("before")
    with pytest.raises(KeyboardInterrupt), followed_by(made, plugins):
        plugins.hooks.on_notice("within")
        raise KeyboardInterrupt
    plugins.hooks.on_notice("after")
    assert [each.told for each in made.values()] == [["within", "closed"]] * 2
    assert failed == [("tracker broken", "close")]
    with followed_by(build_trackers(resolved("acme"), plugins), plugins):  # the next run
        pass


def test_one_that_is_no_observer_is_refused() -> None:
    with pytest.raises(PluginError, match=r"acme-tracker.*'empty'.*has no whale_on_… hook"):
        build_trackers(resolved("empty"), acme())


def test_names_nobody_registers() -> None:
    plugins = acme()
    assert plugins.registrations(TRACKER).keys() == {"acme", "broken", "empty"}
    assert tracker_problems(plugins, ("acme", "broken")) == []
    assert tracker_problems(plugins, ("acmee",)) == [
        "trackers.use: no tracker is called 'acmee', did you mean 'acme'?"
    ]
    (problem,) = tracker_problems(Plugins(), ("wandb",))
    assert problem.endswith("get some with: pip install whale-trackers")

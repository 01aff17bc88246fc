"""What is checked of a plugin object before it is registered."""

from __future__ import annotations

import inspect

import pluggy

from whale_core.plugins.suggest import did_you_mean


def check_hooks(manager: pluggy.PluginManager, plugin: object, known: frozenset[str]) -> None:
    """Raise ``TypeError`` if a hook of ``plugin`` would never be called, or not as expected.

    pluggy itself takes a misspelt hook in silence, and does not see an unmarked one at all.
    """
    for name in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, name)
        if options is None:
            _check_unmarked(plugin, name, known)
            continue
        hook = options["specname"] or name
        if hook not in known:
            raise TypeError(f"unknown hook {hook}{did_you_mean(hook, known)}")
        if options["wrapper"] or options["hookwrapper"]:
            raise TypeError(f"{name} is a hook wrapper; only plain functions are supported")
        if inspect.iscoroutinefunction(inspect.getattr_static(plugin, name)):
            raise TypeError(f"{name} is a coroutine function; only plain functions are supported")


def _check_unmarked(plugin: object, name: str, known: frozenset[str]) -> None:
    if name in known and inspect.isfunction(inspect.getattr_static(plugin, name)):
        raise TypeError(f"{name} lacks the marker @whale_core.plugins.hookimpl")

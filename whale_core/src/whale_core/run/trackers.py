"""The trackers that a run's settings name: observers of this run, for as long as it works."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from whale_core.config import Resolved
from whale_core.errors import PluginError
from whale_core.plugins import Setup
from whale_core.plugins.manager import TRACKER, Plugins
from whale_core.plugins.registered import Failure
from whale_core.run.services import close_each


def build_trackers(resolved: Resolved, plugins: Plugins) -> Mapping[str, object]:
    """Return the trackers by what the journal calls them. To be called before anything is spent.

    Raises:
        InputError: a tracker lacks its library.
        PluginError: a plugin fails.
    """
    core, settings = resolved.core, resolved.core.trackers
    made = {}
    for name in settings.use:
        registered = plugins.get(TRACKER, name)
        config = plugins.config_class(registered)
        try:
            values = config(prefix=settings.prefix, x=settings.x)
        except Exception as error:
            doing = f"handing tracker '{name}' its prefix and x"
            raise PluginError(str(Failure.of(registered.origin, doing, error))) from error
        made[f"tracker {name}"] = plugins.build(TRACKER, name, values, Setup(core.seed))
    return made


@contextmanager
def followed_by(trackers: Mapping[str, object], plugins: Plugins) -> Iterator[None]:
    """Tell ``trackers`` of the run that is worked on here, and close them after it.

    One that cannot be closed is reported as one that fails in a hook, and harms nothing.
    """
    for name, tracker in trackers.items():
        plugins.observe(tracker, name)
    try:
        yield
    finally:
        for name, tracker in trackers.items():
            plugins.dismiss(name)
            try:
                asyncio.run(close_each(tracker))
            except Exception as error:
                plugins.hooks.on_observer_error(name, "close", error)

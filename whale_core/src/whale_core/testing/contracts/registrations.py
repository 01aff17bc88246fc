"""Contract of a plugin module: its hooks are known, and what it registers can be imported."""

from __future__ import annotations

from types import ModuleType

from whale_core.errors import WhaleError
from whale_core.plugins.manager import KINDS, Plugins
from whale_core.plugins.references import resolve
from whale_core.plugins.registered import Origin
from whale_core.testing.contracts.requirement import doing, require


def check_registrations(module: ModuleType) -> None:
    """Check a plugin module, the one that the entry point names.

    Every hook is one that is called; something is registered, or runs are followed; each factory
    and configuration class can be imported; every setting has a default that its own validator
    accepts.
    """
    plugins = Plugins()
    plugins.add(module, Origin(module.__name__, "0", "test"))
    for failure in plugins.failures:
        require(False, str(failure))
    found = [each for kind in KINDS for each in plugins.registrations(kind).values()]
    require(
        bool(found or plugins.sets() or plugins.following),
        f"{module.__name__} registers nothing: return a Registration",
    )
    for each in found:
        what = f"{each.role} '{each.name}'"
        require(bool(each.registration.summary.strip()), f"{what} has no summary")
        try:
            factory = resolve(each, each.registration.factory)
            config = plugins.config_class(each)
        except WhaleError as error:
            raise AssertionError(str(error)) from error
        require(callable(factory), f"{what}: {each.registration.factory} cannot be called")
        with doing(f"{what}: {each.registration.config}() without arguments"):
            config()

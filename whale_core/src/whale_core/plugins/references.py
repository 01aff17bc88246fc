"""``"module:Class"`` references: how a plugin names heavy code without importing it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from whale_core.errors import PluginError
from whale_core.plugins.lookup import looks_whole
from whale_core.plugins.registered import Failure, Registered


def resolve(registered: Registered, reference: object) -> Any:
    """Import what ``reference`` names; an object stands for itself.

    Raise ``PluginError`` naming the plugin that wrote it.
    """
    found = _import(registered, reference)
    if isinstance(found, Failure):
        raise PluginError(str(found)) from found.error
    return found


def unusable(registered: Registered) -> Failure | None:
    """Return what a run would stop at when it imports the plugin's code, or None.

    Code that looks whole is not imported, so this is quick however heavy the plugin is.
    """
    for reference in (registered.registration.factory, registered.registration.config):
        if isinstance(reference, str) and not looks_whole(reference):
            found = _import(registered, reference)
            if isinstance(found, Failure):
                return found
    return None


def _import(registered: Registered, reference: object) -> Any:
    """Return what ``reference`` names, or why it cannot be imported."""
    if not isinstance(reference, str):
        return reference
    module_name, colon, attribute = reference.partition(":")
    doing = f"importing {reference!r} for {registered.role} '{registered.name}'"
    if not (module_name and colon and attribute):
        cause = ValueError("a reference must read 'module:Class'")
        return Failure.of(registered.origin, doing, cause)
    try:
        return getattr(import_module(module_name), attribute)
    except (Exception, SystemExit) as error:
        return Failure.of(registered.origin, doing, error)

"""``"module:Class"`` references: how a plugin names heavy code without importing it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from whale_core.errors import PluginError
from whale_core.plugins.registered import Failure, Registered


def resolve(registered: Registered, reference: object) -> Any:
    """Import what ``reference`` names; an object stands for itself.

    Raise ``PluginError`` naming the plugin that wrote it.
    """
    if not isinstance(reference, str):
        return reference
    module_name, colon, attribute = reference.partition(":")
    doing = f"importing {reference!r} for {registered.role} '{registered.name}'"
    if not (module_name and colon and attribute):
        cause = ValueError("a reference must read 'module:Class'")
        raise PluginError(str(Failure.of(registered.origin, doing, cause)))
    try:
        return getattr(import_module(module_name), attribute)
    except (Exception, SystemExit) as error:
        raise PluginError(str(Failure.of(registered.origin, doing, error))) from error

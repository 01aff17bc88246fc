"""What a plugin set needs and is not installed: one line with the pip command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from packaging.requirements import Requirement

from whale_core.config.layers import parse
from whale_core.errors import InputError
from whale_core.plugins.manager import ROLES, Plugins
from whale_core.plugins.registered import Origin
from whale_core.plugins.requirements import applies
from whale_core.plugins.sets import PluginSet

TRACKER_MODULES = {"tensorboard": "tensorboardX", "wandb": "wandb", "mlflow": "mlflow"}


def check_trackers(plugins: Plugins, names: Sequence[str]) -> None:
    """Raise ``InputError`` when a tracker that the settings name cannot follow a run here."""
    if names and not any(each.distribution == "whale-trackers" for each, _ in plugins.following):
        left_out = "".join(f"; {line}" for line in plugins.left_out())
        raise InputError(
            f"trackers.use: {', '.join(names)}: whale-trackers is not loaded: "
            f"pip install 'whale-trackers[{','.join(names)}]'{left_out}"
        )
    for name in names:
        if find_spec(TRACKER_MODULES[name]) is None:
            raise InputError(
                f"trackers.use: {name} needs {TRACKER_MODULES[name]}: "
                f"pip install 'whale-trackers[{name}]'"
            )


def check_installed(plugins: Plugins, plugin_set: str, tree: Mapping[str, Any]) -> None:
    """Raise ``InputError`` when ``tree`` names plugins of a set that are not installed or disabled.

    Names that the user put in the place of the set's own are left to the ordinary check, and so
    are those that a broken plugin may have.
    """
    unknown = {role: name for role, name in _names(tree) if not plugins.is_registered(role, name)}
    found = plugins.sets().get(plugin_set)
    if not unknown or found is None:
        return
    own = dict(_names(_read(*found)))
    missing = [f"{role} '{name}'" for role, name in unknown.items() if own.get(role) == name]
    needed = f"plugin set '{plugin_set}' needs {', '.join(missing)}, which nothing"
    requires = found[0].requires
    if missing and any(map(_is_absent, requires)):
        command = " ".join(f"'{each}'" for each in requires)
        raise InputError(f"{needed} installed registers: pip install {command}")
    if missing and plugins.disabled and not plugins.failures:
        raise InputError(f"{needed} loaded registers: {'; '.join(plugins.left_out())}")


def _read(plugin_set: PluginSet, origin: Origin) -> Mapping[str, Any]:
    """Return the set's text as a layer, an empty one if it cannot be read."""
    try:
        return parse(plugin_set.read(), f"plugin set '{plugin_set.name}' of {origin}")
    except (OSError, ImportError, UnicodeDecodeError, InputError):
        return {}


def _names(tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for role in ROLES:
        section = tree.get(role)
        name = section.get("name") if isinstance(section, Mapping) else None
        if isinstance(name, str):
            yield role, name


def _is_absent(text: str) -> bool:
    """Say whether a distribution, or one that an extra of it brings, is not installed."""
    wanted = Requirement(text)
    try:
        requires = metadata.requires(wanted.name) or []
    except metadata.PackageNotFoundError:
        return True
    for each in map(Requirement, requires):
        if each.marker and any(applies(each, extra) for extra in wanted.extras):
            try:
                metadata.distribution(each.name)
            except metadata.PackageNotFoundError:
                return True
    return False

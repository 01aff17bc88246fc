"""What a plugin set needs and is not installed: one line with the pip command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from whale_core.config.plugin_sets import read_set
from whale_core.errors import InputError, WhaleError
from whale_core.plugins.manager import ROLES, Plugins
from whale_core.plugins.requirements import install_command

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
    if not unknown or plugin_set not in plugins.sets():
        return
    try:
        found = read_set(plugins, plugin_set)
    except WhaleError:  # a stored run's, whose set cannot be read today
        return
    own = set(_names(found.layer)).union(*map(_names, found.in_domain.values()))
    missing = [f"{role} '{name}'" for role, name in unknown.items() if (role, name) in own]
    needed = f"plugin set '{plugin_set}' needs {', '.join(missing)}, which nothing"
    if missing and (command := install_command(found.requires)):
        raise InputError(f"{needed} installed registers: {command}")
    if missing and plugins.disabled and not plugins.failures:
        raise InputError(f"{needed} loaded registers: {'; '.join(plugins.left_out())}")


def _names(tree: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for role in ROLES:
        section = tree.get(role)
        name = section.get("name") if isinstance(section, Mapping) else None
        if isinstance(name, str):
            yield role, name

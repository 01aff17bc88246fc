"""What a plugin set needs and is not installed: one line with the pip command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whale_core.config.plugin_sets import read_set
from whale_core.errors import InputError, PluginError, WhaleError
from whale_core.plugins.manager import ROLES, TRACKER, Plugins
from whale_core.plugins.references import unusable
from whale_core.plugins.requirements import install_command


def tracker_problems(plugins: Plugins, names: Sequence[str]) -> list[str]:
    """Return what is wrong with ``trackers.use``.

    Raises:
        PluginError: a tracker's code cannot be imported, or two distributions register its name.
    """
    problems = []
    for index, name in enumerate(names):
        if name in names[:index]:
            problems.append(f"trackers.use: '{name}' stands in the list twice")
            continue
        try:
            registered = plugins.get(TRACKER, name)
        except InputError as error:
            none = not (plugins.registrations(TRACKER) or plugins.failures or plugins.disabled)
            hint = "; get some with: pip install whale-trackers" if none else ""
            problems.append(f"trackers.use: {error}{hint}")
            continue
        if failure := unusable(registered):
            raise PluginError(str(failure)) from failure.error
    return problems


def check_installed(plugins: Plugins, plugin_set: str, tree: Mapping[str, Any]) -> None:
    """Raise ``InputError`` when ``tree`` names plugins of a set that are not installed or disabled.

    Names that the user put in the place of the set's own are left to the ordinary check, and so
    are those that a broken plugin may have.
    """
    unknown = [each for each in _names(tree) if not plugins.is_registered(*each)]
    if not unknown or plugin_set not in plugins.sets():
        return
    try:
        found = read_set(plugins, plugin_set)
    except WhaleError:  # a stored run's, whose set cannot be read today
        return
    own = set(_names(found.layer)).union(*map(_names, found.in_domain.values()))
    missing = [f"{role} '{name}'" for role, name in unknown if (role, name) in own]
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
    section = tree.get("trackers")
    used = section.get("use") if isinstance(section, Mapping) else None
    for name in used if isinstance(used, list | tuple) else ():
        if isinstance(name, str):
            yield TRACKER, name

"""From a plugin set, files and overrides to one resolved configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from whale_core.config.layers import (
    Layer,
    lay_over,
    parse,
    parse_overrides,
    read_file,
    recommended_layer,
    resolve_references,
)
from whale_core.config.resolved import Chosen, Resolved
from whale_core.config.settings import CoreSettings
from whale_core.config.structure import INVALID, join, structure, unstructure
from whale_core.errors import InputError, PluginError
from whale_core.plugins.manager import ROLES, Plugins
from whale_core.plugins.registered import Failure, Registered
from whale_core.plugins.suggest import did_you_mean

REQUIRED_ROLES = ("domain", "verifier", "engine", "scheduler")
CORE_KEYS = tuple(each.name for each in attrs.fields(CoreSettings))
SET_KEY = "plugin_set"  # stands in a stored configuration only


def resolve(
    plugins: Plugins, plugin_set: str, files: Sequence[Path], overrides: Sequence[str]
) -> Resolved:
    """Lay plugin set < the domain's recommendation < files < overrides, and check the result.

    Raises:
        InputError: a file or override that cannot be read; or settings that are wrong, all at
            once, one ``path: problem`` a line.
        PluginError: a plugin that cannot be used.
    """
    base = _read_set(plugins, plugin_set)
    upper = [read_file(path) for path in files]
    for path, layer in zip(files, upper, strict=True):
        stored_set = layer.pop(SET_KEY, plugin_set)
        if stored_set != plugin_set:
            raise InputError(f"{path}: made for plugin set '{stored_set}', not '{plugin_set}'")
    upper.append(parse_overrides(overrides))
    tree = _lay_all(base, upper)
    if recommended := _recommended(plugins, tree):
        named = lay_over(base, {"domain": {"name": tree["domain"]["name"]}})
        tree = _lay_all(lay_over(named, recommended_layer(recommended, named)), upper)
    return from_tree(plugins, plugin_set, resolve_references(tree))


def read_config(plugins: Plugins, path: Path, caps: Sequence[str] = ()) -> Resolved:
    """Read back a run's stored ``config.yaml``: the same checks; only ``cap.key=value`` may differ.

    Raises:
        InputError: as ``resolve`` does, and for a setting that is no cap.
    """
    for setting in caps:
        if not setting.startswith("cap."):
            raise InputError(f"{setting}: a run is continued as it was; only cap.… may be changed")
    tree = lay_over(read_file(path), parse_overrides(caps))
    plugin_set = tree.pop(SET_KEY, None)
    if not isinstance(plugin_set, str):
        raise InputError(f"{path}: not the stored configuration of a run ('{SET_KEY}' is missing)")
    return from_tree(plugins, plugin_set, tree)


def from_tree(plugins: Plugins, plugin_set: str, tree: Mapping[str, Any]) -> Resolved:
    """Turn a merged tree of plain values into settings objects. Raises as ``resolve`` does."""
    problems: list[str] = []
    valid = (*ROLES, *CORE_KEYS)
    problems += [
        f"{join('', key)}: unknown key{did_you_mean(str(key), valid)}"
        for key in tree
        if key not in valid
    ]
    chosen = {
        role: made
        for role in ROLES
        if (made := _choose(plugins, role, tree.get(role), problems)) is not None
    }
    core = structure({k: tree[k] for k in CORE_KEYS if k in tree}, CoreSettings, "", problems)
    problems += _unmet_needs(chosen, tree)
    if problems:
        raise InputError("\n".join(problems))
    plain: dict[str, Any] = {
        role: {"name": each.name, **unstructure(each.config)} for role, each in chosen.items()
    }
    return Resolved(chosen, core, {**plain, **unstructure(core)}, plugin_set)


def _read_set(plugins: Plugins, name: str) -> Layer:
    found, origin = plugins.plugin_set(name)
    try:
        text = found.read()
    except (OSError, ImportError) as error:
        failure = Failure.of(origin, f"reading plugin set '{name}'", error)
        raise PluginError(str(failure)) from error
    return parse(text, f"plugin set '{name}' of {origin}")


def _lay_all(tree: Layer, layers: Sequence[Layer]) -> Layer:
    for layer in layers:
        tree = lay_over(tree, layer)
    return tree


def _recommended(plugins: Plugins, tree: Layer) -> Mapping[str, Any]:
    """Return the chosen domain's recommendation; an unusable domain is reported later."""
    domain = tree.get("domain")
    name = domain.get("name") if isinstance(domain, dict) else None
    registered = plugins.registrations("domain").get(name) if isinstance(name, str) else None
    if registered is None:
        return {}
    recommended: Mapping[str, Any] = getattr(plugins.config_class(registered), "recommended", {})
    return recommended


def _choose(plugins: Plugins, role: str, value: Any, problems: list[str]) -> Chosen | None:
    """Return the plugin of one role; None if the role is unfilled or its problems are noted."""
    if value is None:
        if role in REQUIRED_ROLES:
            problems.append(f"{role}: missing, name a plugin for it")
        return None
    if not isinstance(value, Mapping):
        problems.append(f"{role}: expected a plugin's name or a mapping with 'name', got {value!r}")
        return None
    settings = dict(value)
    name = settings.pop("name", None)
    if not isinstance(name, str):
        problems.append(f"{role}.name: expected a plugin's name, got {name!r}")
        return None
    try:
        registered = plugins.get(role, name)
    except InputError as error:
        problems.append(f"{role}: {error}")
        return None
    config = _settings(plugins, registered, settings, problems)
    return None if config is INVALID else Chosen(role, name, registered, config)


def _settings(
    plugins: Plugins, registered: Registered, settings: dict[str, Any], problems: list[str]
) -> Any:
    cls = plugins.config_class(registered)
    try:
        return structure(settings, cls, registered.role, problems)
    except (TypeError, NameError) as error:
        failure = Failure.of(registered.origin, f"reading {cls.__qualname__}", error)
        raise PluginError(str(failure)) from error


def _unmet_needs(chosen: Mapping[str, Chosen], tree: Mapping[str, Any]) -> list[str]:
    """Return problems of roles that a chosen plugin needs and nobody fills."""
    return [
        f"{role}: missing, {each.role} '{each.name}' needs one"
        for each in chosen.values()
        for role in getattr(type(each.config), "needs", ())
        if tree.get(role) is None
    ]

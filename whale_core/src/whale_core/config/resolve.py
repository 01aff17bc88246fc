"""From a plugin set, files and overrides to one resolved configuration."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from whale_core.config import yaml_text
from whale_core.config.layers import (
    Layer,
    lay_over,
    layer_of,
    parse,
    parse_overrides,
    read_file,
    recommended_layer,
    resolve_references,
)
from whale_core.config.missing import check_installed, tracker_problems
from whale_core.config.paths import anchored
from whale_core.config.plugin_sets import SetLayers, read_set
from whale_core.config.resolved import Chosen, Resolved
from whale_core.config.settings import CoreSettings
from whale_core.config.structure import INVALID, join, shown, structure, unstructure
from whale_core.errors import InputError, PluginError
from whale_core.plugins.manager import ROLES, Plugins
from whale_core.plugins.references import unusable
from whale_core.plugins.registered import Failure, Registered
from whale_core.plugins.suggest import did_you_mean

REQUIRED_ROLES = ("domain", "verifier", "engine", "scheduler")
CORE_KEYS = tuple(each.name for each in attrs.fields(CoreSettings))
SET_KEY = "plugin_set"  # stands in a stored configuration only
NO_SET = "settings"  # stands there for a run that was made from settings alone
NOTHING = SetLayers({}, {}, (), ())  # what no plugin set says

Overrides = Sequence[str] | Mapping[str, Any]
"""Settings ``key.sub=value``, or given in Python (see ``layer_of``)."""


def resolve(
    plugins: Plugins,
    plugin_set: str | Mapping[str, Any],
    files: Sequence[Path],
    overrides: Overrides,
    required: Sequence[str] = REQUIRED_ROLES,
) -> Resolved:
    """Lay plugin set < the domain's recommendation < files < overrides, and check the result.

    What a plugin set says of the chosen domain (``in_domain``) stands above its recommendation.
    Settings may take the plugin set's place: they then stand above the domain's recommendation.
    A run's stored configuration is complete: with one among the files, what its plugin set (by name
    or, for a run made from settings alone, ``settings``) and its domain's recommendation say is not
    laid beneath it again, so that roles which the run left empty stay empty.
    ``required`` are the roles that must be filled.

    Raises:
        InputError: a file or override that cannot be read; or settings that are wrong, all at
            once, one ``path: problem`` a line.
        PluginError: a plugin that cannot be used.
    """
    texts = [read_file(path) for path in files]
    upper = [
        parse(text, f"configuration file {path}") for path, text in zip(files, texts, strict=True)
    ]
    stored = [SET_KEY in layer for layer in upper]  # a run's: its paths are as they should be
    complete = {_domain_name(layer) for layer in upper if SET_KEY in layer}
    read = NOTHING
    given: Layer = {}  # in the plugin set's place
    if not isinstance(plugin_set, str):
        given = layer_of(plugin_set)
        plugin_set = NO_SET
    elif not complete:
        read = read_set(plugins, plugin_set)
    base = read.layer
    for path, layer in zip(files, upper, strict=True):
        stored_set = layer.pop(SET_KEY, plugin_set)
        if stored_set != plugin_set:
            raise InputError(f"{path}: made for plugin set {shown(stored_set)}, not '{plugin_set}'")
    upper = [given, *upper, _override_layer(overrides)]
    hints = _hints(plugins, _lay_all(base, upper))
    folders = [Path.cwd(), *(path.absolute().parent for path in files), Path.cwd()]
    upper = [
        layer if is_stored else _anchored(layer, hints, folder)
        for layer, folder, is_stored in zip(upper, folders, [False, *stored, False], strict=True)
    ]
    tree = _lay_all(base, upper)
    domain = _domain_name(tree)
    recommended = {} if domain in complete else _recommended(plugins, domain)
    if recommended or domain in read.in_domain:
        named = lay_over(base, {"domain": {"name": domain}})
        middle = [recommended_layer(recommended, named), read.in_domain.get(domain, {})]
        tree = _lay_all(named, [*middle, *upper])
    sources = [(str(path), text) for path, text in zip(files, texts, strict=True)]

    def where(problem: str) -> str:
        """Say which file holds the setting of ``problem``; nothing if the command line does."""
        if _holds(upper[-1], problem.partition(":")[0]):
            return ""
        for name, text in [*reversed(sources), *read.texts]:
            if line := yaml_text.line_of(text, problem):
                return f" ({name}, line {line})"
        return ""

    return from_tree(plugins, plugin_set, _resolved_references(tree, where), where, required)


def read_config(plugins: Plugins, path: Path, caps: Overrides = ()) -> Resolved:
    """Read back a run's stored ``config.yaml``: the same checks; only ``cap.key`` may differ.

    Raises:
        InputError: as ``resolve`` does, and for a setting that is no cap.
    """
    changed = _override_layer(caps)
    for key in changed:
        if key != "cap":
            raise InputError(f"{key}: a run is continued as it was; only cap.… may be changed")
    text = read_file(path)
    tree = lay_over(parse(text, f"configuration file {path}"), changed)
    plugin_set = tree.pop(SET_KEY, None)
    if not isinstance(plugin_set, str):
        raise InputError(f"{path}: not the stored configuration of a run ('{SET_KEY}' is missing)")

    def where(problem: str) -> str:
        line = yaml_text.line_of(text, problem)
        return f" ({path}, line {line})" if line else f" ({path})"

    return from_tree(plugins, plugin_set, tree, where)


def from_tree(
    plugins: Plugins,
    plugin_set: str,
    tree: Mapping[str, Any],
    where: Callable[[str], str] = lambda problem: "",
    required: Sequence[str] = REQUIRED_ROLES,
) -> Resolved:
    """Turn a merged tree of plain values into settings objects. Raises as ``resolve`` does.

    ``where`` is asked where the setting of a problem stands; its answer ends the line about it.
    """
    check_installed(plugins, plugin_set, tree)
    problems: list[str] = []
    valid = (*ROLES, *CORE_KEYS)
    problems += [
        f"{join('', key)}: unknown key{did_you_mean(join('', key), valid)}"
        for key in tree
        if key not in valid
    ]
    chosen = {
        role: made
        for role in ROLES
        if (made := _choose(plugins, role, tree.get(role), problems)) is not None
    }
    problems += [
        f"{role}: missing, name a plugin for it" for role in required if tree.get(role) is None
    ]
    core = structure({k: tree[k] for k in CORE_KEYS if k in tree}, CoreSettings, "", problems)
    if core is not INVALID:
        problems += tracker_problems(plugins, core.trackers.use)
    problems += _unmet_needs(chosen, tree)
    if problems:
        raise InputError("\n".join(f"{each}{where(each)}" for each in problems))
    plain: dict[str, Any] = {
        role: {"name": each.name, **unstructure(each.config)} for role, each in chosen.items()
    }
    return Resolved(chosen, core, {**plain, **unstructure(core)}, plugin_set)


def _override_layer(overrides: Overrides) -> Layer:
    return layer_of(overrides) if isinstance(overrides, Mapping) else parse_overrides(overrides)


def _hints(plugins: Plugins, tree: Layer) -> dict[str, Any]:
    """Return the type of each section: the configuration classes of the plugins it names."""
    hints: dict[str, Any] = dict(typing.get_type_hints(CoreSettings, include_extras=True))
    for role in ROLES:
        section = tree.get(role)
        name = section.get("name") if isinstance(section, dict) else None
        registered = plugins.registrations(role).get(name) if isinstance(name, str) else None
        if registered is not None:
            hints[role] = plugins.config_class(registered)
    return hints


def _anchored(layer: Layer, hints: Mapping[str, Any], folder: Path) -> Layer:
    return {key: anchored(value, hints.get(key), folder) for key, value in layer.items()}


def _resolved_references(tree: Layer, where: Callable[[str], str]) -> Layer:
    try:
        return resolve_references(tree)
    except InputError as error:
        raise InputError(f"{error}{where(str(error))}") from error


def _holds(layer: Layer, path: str) -> bool:
    """Say whether ``layer`` sets ``path`` or a part of it."""
    value: Any = layer
    for part in path.split("[")[0].split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = value[part]
    return True


def _lay_all(tree: Layer, layers: Sequence[Layer]) -> Layer:
    for layer in layers:
        tree = lay_over(tree, layer)
    return tree


def _domain_name(tree: Layer) -> str:
    """Return the chosen domain; empty where what is chosen is no name, which is reported later."""
    domain = tree.get("domain")
    name = domain.get("name") if isinstance(domain, dict) else None
    return name if isinstance(name, str) else ""


def _recommended(plugins: Plugins, domain: str) -> Mapping[str, Any]:
    """Return a domain's recommendation; an unusable domain is reported later."""
    registered = plugins.registrations("domain").get(domain)
    if registered is None:
        return {}
    recommended: Mapping[str, Any] = getattr(plugins.config_class(registered), "recommended", {})
    return recommended


def _choose(plugins: Plugins, role: str, value: Any, problems: list[str]) -> Chosen | None:
    """Return the plugin of one role; None if the role is unfilled or its problems are noted."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        problems.append(
            f"{role}: expected a plugin's name or a mapping with 'name', got {shown(value)}"
        )
        return None
    settings = dict(value)
    name = settings.pop("name", None)
    if not isinstance(name, str):
        problems.append(f"{role}.name: expected a plugin's name, got {shown(name)}")
        return None
    try:
        registered = plugins.get(role, name)
    except InputError as error:
        problems.append(f"{role}: {error}")
        return None
    if failure := unusable(registered):  # now, not after a large model has been loaded
        raise PluginError(str(failure)) from failure.error
    config = _settings(plugins, registered, settings, problems)
    return None if config is INVALID else Chosen(role, name, registered, config)


def _settings(
    plugins: Plugins, registered: Registered, settings: dict[str, Any], problems: list[str]
) -> Any:
    cls = plugins.config_class(registered)
    try:
        return structure(settings, cls, registered.role, problems)
    except (Exception, SystemExit) as error:  # a default or a validator of the plugin's own
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

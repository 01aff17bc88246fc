"""Loads installed plugins, each on its own, and answers who fills a role under a name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy

import whale_core
from whale_core.errors import InputError, PluginError, WhaleError
from whale_core.plugins import ENTRY_POINT_GROUP, Registration, Setup, builtin, here, hookspecs
from whale_core.plugins.checks import (
    check_config,
    check_hooks,
    check_observer,
    check_part,
    check_registered,
)
from whale_core.plugins.observers import Observers
from whale_core.plugins.references import resolve, unusable
from whale_core.plugins.registered import Disabled, Failure, Origin, Registered
from whale_core.plugins.selection import Selection, read_selection
from whale_core.plugins.sets import PluginSet
from whale_core.plugins.suggest import did_you_mean, nearest
from whale_core.plugins.versions import incompatibility

__all__ = ["KINDS", "ROLES", "TRACKER", "Observers", "Plugins", "load_plugins"]

TRACKER = "tracker"  # registered as a role's plugins are; settings name any number of them

REGISTRATION_HOOKS: Mapping[str, str] = {
    "domain": "whale_register_domains",
    "verifier": "whale_register_verifiers",
    "engine": "whale_register_rollout_engines",
    "proposer": "whale_register_proposers",
    "model_update": "whale_register_model_updates",
    "harness_search": "whale_register_harness_searches",
    "scheduler": "whale_register_schedulers",
    TRACKER: "whale_register_trackers",
}
KINDS = tuple(REGISTRATION_HOOKS)  # of what is registered
ROLES = tuple(kind for kind in KINDS if kind != TRACKER)  # as a run builds its parts


def load_plugins() -> Plugins:
    """Load whale-core's own plugins, those of all installed distributions, and those that this
    program registered itself (``plugins.here``).

    A plugin that fails does not raise: it is listed in ``failures``. What the environment leaves
    out (see ``whale_core.plugins.selection``) is not imported, and listed in ``disabled``.

    Raises:
        InputError: the environment names a distribution that is not installed.
    """
    points = sorted(entry_points(group=ENTRY_POINT_GROUP), key=_sort_key)
    selection = read_selection(os.environ, {_owner(point)[0] for point in points})
    plugins = Plugins()
    plugins.add(builtin, Origin("whale-core", whale_core.__version__, "built in"))
    for point in points:
        if point.value != builtin.__name__:  # whale-core declares an entry point too
            _load(plugins, point, selection)
    for registered in here.registered():
        plugins.include(registered)
    return plugins


def _sort_key(point: EntryPoint) -> tuple[str, str]:
    return (_owner(point)[0], point.name)


def _owner(point: EntryPoint) -> tuple[str, str]:
    """Return distribution and version; a damaged installation knows neither."""
    data = point.dist.metadata if point.dist else None
    names, versions = (data and data.get_all(key) for key in ("Name", "Version"))
    return (names or ["unknown"])[0], (versions or ["0"])[0]


def _load(plugins: Plugins, point: EntryPoint, selection: Selection) -> None:
    name, version = _owner(point)
    origin = Origin(name, version, point.name)
    if variable := selection.left_out_by(name):
        plugins.disabled.append(Disabled(origin, variable))
        return
    doing = "reading its metadata"
    try:
        if point.dist and (failure := incompatibility(origin, point.dist)):
            plugins.failures.append(failure)
            return
        doing = f"importing {point.value!r}"
        module = point.load()
    except (Exception, SystemExit) as error:
        plugins.failures.append(Failure.of(origin, doing, error))
        return
    plugins.add(module, origin)


class Plugins:
    """All loaded plugins. ``hooks`` tells observers; ``failures`` is what could not be loaded and
    ``disabled`` what was left out on purpose. ``following`` are the plugins that register nothing
    and follow runs."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager(ENTRY_POINT_GROUP)
        self._manager.add_hookspecs(hookspecs)
        self._known_hooks = frozenset(n for n in vars(hookspecs) if n.startswith("whale_"))
        self._by_role: dict[str, dict[str, list[Registered]]] = {kind: {} for kind in KINDS}
        self._sets: dict[str, list[tuple[PluginSet, Origin]]] = {}
        self.failures: list[Failure] = []
        self.disabled: list[Disabled] = []
        self.following: list[tuple[Origin, object]] = []
        self.hooks = Observers(self._manager)

    def add(self, plugin: object, origin: Origin) -> None:
        """Register a plugin module (or object) and what its registration hooks return.

        A plugin that fails is left out as a whole and added to ``failures``.
        """
        doing = "being registered"
        name = f"{origin.distribution}:{origin.entry_point}"
        try:
            check_hooks(self._manager, plugin, self._known_hooks)
            self._manager.register(plugin, name)
            found: dict[str, list[Any]] = {}
            for hook in (*REGISTRATION_HOOKS.values(), "whale_register_plugin_sets"):
                doing = f"calling {hook}"
                found[hook] = self._call_registration(hook, plugin)
        except (Exception, SystemExit) as error:
            self.failures.append(Failure.of(origin, doing, error))
            if self._manager.get_plugin(name) is plugin:
                self._manager.unregister(name=name)
            return
        implemented = {each.name for each in self._manager.get_hookcallers(plugin) or ()}
        if not any(found.values()) and not implemented <= found.keys():
            self.following.append((origin, plugin))
        for role, hook in REGISTRATION_HOOKS.items():
            for item in found[hook]:
                self.include(Registered(role, item, origin))
        for item in found["whale_register_plugin_sets"]:
            self._sets.setdefault(item.name, []).append((item, origin))

    def include(self, registered: Registered) -> None:
        """Add one registration to those that hooks returned."""
        owners = self._by_role[registered.role].setdefault(registered.name, [])
        owners.append(registered)

    def observe(self, observer: object, name: str) -> None:
        """Register an observer object for this process. Raise ``TypeError`` for a wrong hook."""
        check_hooks(self._manager, observer, self._known_hooks)
        self._manager.register(observer, name)

    def dismiss(self, name: str) -> None:
        """Tell the observer registered as ``name`` nothing more."""
        self._manager.unregister(name=name)

    def registrations(self, role: str) -> dict[str, Registered]:
        """Return the plugins of a role by name, those left out that two distributions claim."""
        named = sorted(self._by_role[role].items())
        return {name: owners[0] for name, owners in named if len(owners) == 1}

    def conflicts(self) -> list[tuple[str, str, Origin]]:
        """Return role, name and claimant of everything that two plugins claim."""
        claims: list[tuple[str, str, list[Origin]]] = [
            (role, name, [owner.origin for owner in owners])
            for role in KINDS
            for name, owners in sorted(self._by_role[role].items())
        ]
        claims += [
            ("plugin_set", name, [origin for _, origin in owners])
            for name, owners in sorted(self._sets.items())
        ]
        return [
            (role, name, origin)
            for role, name, origins in claims
            if len(origins) > 1
            for origin in origins
        ]

    def unusable(self) -> list[Failure]:
        """Return the plugins whose code, named for later, cannot be imported; see ``references``.

        ``failures`` are those that could not even register.
        """
        found = (unusable(each) for kind in KINDS for each in self.registrations(kind).values())
        return [failure for failure in found if failure is not None]

    def left_out(self) -> list[str]:
        """Return a line for each environment variable that leaves plugins out, and which."""
        by_variable: dict[str, list[str]] = {}
        for each in self.disabled:
            by_variable.setdefault(each.variable, []).append(each.origin.distribution)
        return [f"{variable} leaves out {', '.join(n)}" for variable, n in by_variable.items()]

    def owners(self, role: str, name: str) -> list[Origin]:
        """Return where the plugins of ``role`` called ``name`` come from; two is a conflict."""
        return [each.origin for each in self._by_role[role].get(name, [])]

    def is_registered(self, role: str, name: str) -> bool:
        """Say whether anybody, be it two, registers ``name`` for ``role``."""
        return name in self._by_role[role]

    def get(self, role: str, name: str) -> Registered:
        """Return the plugin of ``role`` called ``name``.

        Raises:
            InputError: nobody registers that name.
            PluginError: two do, or nobody does and a broken plugin may be the one that would.
        """
        owners = self._by_role[role].get(name, [])
        if not owners:
            raise self._unknown(role, name, self._by_role[role])
        if len(owners) > 1:
            raise _claimed_twice(role, name, [owner.origin for owner in owners])
        return owners[0]

    def sets(self) -> dict[str, tuple[PluginSet, Origin]]:
        """Return the plugin sets by name, those left out that two distributions claim."""
        named = sorted(self._sets.items())
        return {name: owners[0] for name, owners in named if len(owners) == 1}

    def plugin_set(self, name: str) -> tuple[PluginSet, Origin]:
        """Return the plugin set called ``name`` and where it comes from. Raises as ``get`` does."""
        owners = self._sets.get(name, [])
        if not owners:
            raise self._unknown("plugin set", name, self._sets)
        if len(owners) > 1:
            raise _claimed_twice("plugin set", name, [origin for _, origin in owners])
        return owners[0]

    def config_class(self, registered: Registered) -> type[Any]:
        """Import the plugin's configuration class; raise ``PluginError`` if it cannot be one."""
        found = resolve(registered, registered.registration.config)
        try:
            check_config(found)
        except TypeError as error:
            doing = f"reading the settings of {registered.role} '{registered.name}'"
            raise PluginError(str(Failure.of(registered.origin, doing, error))) from error
        assert isinstance(found, type)
        return found

    def build(self, role: str, name: str, config: Any, setup: Setup) -> Any:
        """Build the plugin's part, ``factory(config, setup)``, and check that it fits its role; of
        a tracker, that it is an observer.

        A ``WhaleError`` of the factory passes as it is (a missing file, say); any other exception
        becomes a ``PluginError`` that names the plugin, and so does a part with members missing.
        """
        registered = self.get(role, name)
        factory = resolve(registered, registered.registration.factory)
        try:
            part = factory(config, setup)
            if role == TRACKER:
                check_observer(self._manager, part, self._known_hooks)
            else:
                check_part(role, part)
        except WhaleError:
            raise
        except (Exception, SystemExit) as error:
            doing = f"building {role} '{name}'"
            raise PluginError(str(Failure.of(registered.origin, doing, error))) from error
        return part

    def _call_registration(self, hook: str, plugin: object) -> list[Any]:
        items: list[Any] = []
        wanted = PluginSet if hook == "whale_register_plugin_sets" else Registration
        for each in getattr(self._manager.hook, hook).get_hookimpls():
            if each.plugin is plugin:
                items.extend(each.function())
        names: set[str] = set()
        for item in items:
            if not isinstance(item, wanted):
                raise TypeError(f"expected a list of {wanted.__name__}, found {item!r}")
            check_registered(item)
            if item.name in names:
                raise ValueError(f"'{item.name}' stands in the list twice")
            names.add(item.name)
        return items

    def _unknown(self, role: str, name: str, valid: Mapping[str, Any]) -> WhaleError:
        label = role.replace("_", " ")
        message = f"no {label} is called '{name}'{did_you_mean(name, valid)}"
        failures = "; ".join(str(failure) for failure in self.failures)
        left_out = "; ".join(self.left_out())
        if not (failures or left_out):
            return InputError(message)
        if nearest(name, valid):
            return InputError(f"{message} Note: {'; '.join(filter(None, (failures, left_out)))}")
        if not failures:
            return InputError(f"{message}; it may belong to a disabled plugin: {left_out}")
        message = f"{message}; it may belong to a broken plugin: {failures}"
        return PluginError(f"{message}; {left_out}" if left_out else message)


def _claimed_twice(role: str, name: str, origins: list[Origin]) -> PluginError:
    owners = " and ".join(str(origin) for origin in origins)
    label = role.replace("_", " ")
    return PluginError(f"{label} '{name}' is registered by {owners}: uninstall one of them")

"""What is checked of a plugin: its hooks when it is loaded, its settings and its part on use."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import attrs
import pluggy

from whale_core import roles
from whale_core.plugins import Registration
from whale_core.plugins.sets import PluginSet
from whale_core.plugins.suggest import did_you_mean

PROTOCOLS: Mapping[str, type[Any]] = {
    "domain": roles.Domain,
    "verifier": roles.Verifier,
    "engine": roles.RolloutEngine,
    "proposer": roles.Proposer,
    "model_update": roles.ModelUpdate,
    "harness_search": roles.HarnessSearch,
    "scheduler": roles.Scheduler,
}
MISSING: Any = object()
UNREAD: Any = object()  # a value that only running the plugin's code would tell


def check_hooks(manager: pluggy.PluginManager, plugin: object, known: frozenset[str]) -> None:
    """Raise ``TypeError`` if a hook of ``plugin`` would never be called, or not as expected.

    pluggy itself takes a misspelt hook in silence, and does not see an unmarked one at all.
    """
    for name in dir(plugin):
        options = manager.parse_hookimpl_opts(plugin, name)
        if options is None:
            _check_unmarked(plugin, name, known)
            continue
        hook = options["specname"] or name
        if hook not in known:
            raise TypeError(f"unknown hook {hook}{did_you_mean(hook, known)}")
        if options["wrapper"] or options["hookwrapper"]:
            raise TypeError(f"{name} is a hook wrapper; only plain functions are supported")
        if inspect.iscoroutinefunction(inspect.getattr_static(plugin, name)):
            raise TypeError(f"{name} is a coroutine function; only plain functions are supported")


def check_observer(manager: pluggy.PluginManager, observer: object, known: frozenset[str]) -> None:
    """Raise ``TypeError`` unless ``observer`` has a hook, and only such as would be called."""
    check_hooks(manager, observer, known)
    if not any(manager.parse_hookimpl_opts(observer, name) for name in dir(observer)):
        raise TypeError(f"expected an observer, {observer!r} has no whale_on_… hook")


def _check_unmarked(plugin: object, name: str, known: frozenset[str]) -> None:
    if name in known and inspect.isfunction(inspect.getattr_static(plugin, name)):
        raise TypeError(f"{name} lacks the marker @whale_core.plugins.hookimpl")


def check_registered(item: Registration | PluginSet) -> None:
    """Raise ``TypeError`` or ``ValueError`` for a record whose texts are none, or a name that
    nobody could write in a configuration."""
    texts = {"name": item.name, "summary": item.summary}
    if isinstance(item, Registration):
        if not callable(item.factory):
            texts["factory"] = item.factory
        if not isinstance(item.config, type):
            texts["config"] = item.config
    kind = type(item).__name__
    for field, value in texts.items():
        if not isinstance(value, str):
            raise TypeError(f"{kind}.{field} must be a text, is {value!r}")
    if not item.name.isprintable() or item.name.split() != [item.name]:
        raise ValueError(f"{kind}.name must be one word of printable characters, is {item.name!r}")


def check_config(cls: object) -> None:
    """Raise ``TypeError`` unless ``cls`` is a frozen attrs class with a default for every field."""
    if not (isinstance(cls, type) and attrs.has(cls)):
        name = getattr(cls, "__qualname__", None) or repr(cls)
        raise TypeError(f"{name} is not an attrs class")
    name = f"{cls.__module__}:{cls.__qualname__}"
    try:
        object.__new__(cls).any_name = None  # type: ignore[attr-defined]
    except attrs.exceptions.FrozenInstanceError:
        pass
    except AttributeError:
        raise TypeError(f"{name} is not frozen: decorate it with attrs.frozen") from None
    else:
        raise TypeError(f"{name} is not frozen: decorate it with attrs.frozen")
    for each in attrs.fields(cls):
        if each.init and each.alias == "name":
            raise TypeError(f"{name} has a setting 'name': that key says which plugin is used")
        if each.init and each.default is attrs.NOTHING:
            raise TypeError(f"{name}.{each.name} has no default")


def check_part(role: str, part: object) -> None:
    """Raise ``TypeError`` unless ``part`` has what the protocol of ``role`` asks for.

    Every member must be there; a coroutine must be an ``async def``, an asynchronous iterator no
    coroutine; the arguments of the protocol must be taken; plain values must be of their type.
    Properties are not read.
    """
    protocol = PROTOCOLS[role]
    if part is None or isinstance(part, type):
        made = "nothing" if part is None else f"the class {part.__name__}, not an object of it"
        raise TypeError(f"expected a {protocol.__name__}, the factory made {made}")
    lacks, problems = _problems(protocol, part)
    if lacks:
        problems.insert(0, f"it lacks {', '.join(lacks)}")
    if problems:
        raise TypeError(
            f"{type(part).__name__} is no {protocol.__module__}.{protocol.__name__}: "
            + "; ".join(problems)
        )


def _problems(protocol: type[Any], part: object, prefix: str = "") -> tuple[list[str], list[str]]:
    """Return the members that ``part`` lacks, and what is wrong with others."""
    lacks: list[str] = []
    problems: list[str] = []
    for name, hint in _values(protocol).items():
        value = _static_value(part, name)
        if value is MISSING:
            lacks.append(f"{prefix}{name}")
        elif value is not UNREAD and getattr(hint, "_is_protocol", False):
            inner = _problems(hint, value, f"{prefix}{name}.")
            lacks, problems = lacks + inner[0], problems + inner[1]
        elif value is not UNREAD and isinstance(hint, type) and not isinstance(value, hint):
            found = type(value).__name__
            problems.append(f"{prefix}{name} must be {hint.__name__}, is {found}")
    for name, wanted in vars(protocol).items():
        if name.startswith("_") or not inspect.isfunction(wanted):
            continue
        found = getattr(part, name, MISSING)
        if found is MISSING:
            lacks.append(f"{prefix}{name}")
        elif problem := _method_problem(wanted, found):
            problems.append(f"{prefix}{name} {problem}")
    return lacks, problems


def _values(protocol: type[Any]) -> dict[str, Any]:
    """Return the members that are values, not methods, and their types."""
    return {
        name: typing.get_type_hints(member.fget)["return"]
        for name, member in vars(protocol).items()
        if isinstance(member, property)
    }


def _static_value(part: object, name: str) -> Any:
    """Return an attribute; ``UNREAD`` for a property, ``MISSING`` if there is none."""
    try:
        value = inspect.getattr_static(part, name)
    except AttributeError:
        return getattr(part, name, MISSING)  # __getattr__ may have it
    if isinstance(value, types.MemberDescriptorType):  # a slot
        return getattr(part, name, MISSING)
    return UNREAD if hasattr(type(value), "__get__") else value


def _method_problem(wanted: Any, found: Any) -> str:
    """Return what is wrong with a method, or nothing."""
    if not callable(found):
        return "is not callable"
    function = inspect.unwrap(found)
    returns = typing.get_type_hints(wanted).get("return")
    if inspect.iscoroutinefunction(wanted):
        if not inspect.iscoroutinefunction(function):
            return "must be a coroutine function (async def)"
    elif typing.get_origin(returns) is AsyncGenerator:
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            return "must be an asynchronous generator (async def with yield)"
    elif inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "must be a plain function, not async"
    parameters = list(inspect.signature(wanted).parameters.values())[1:]
    given = [each for each in parameters if each.kind is not each.KEYWORD_ONLY]
    named = {each.name: None for each in parameters if each.kind is each.KEYWORD_ONLY}
    required = [each for each in given if each.default is each.empty]
    try:
        signature = inspect.signature(found)
        signature.bind(*given, **named)
        signature.bind(*required, **named)
    except TypeError:
        names = ", ".join(each.name for each in parameters)
        return f"must take the arguments ({names})"
    except ValueError:  # no signature to read
        pass
    return ""

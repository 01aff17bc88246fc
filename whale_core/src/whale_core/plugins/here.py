"""Plugins that the running program registers itself, without being installed: from a notebook, say.

They last as long as the process. A run made with one can be continued in a process that registered
it again; the manifest holds a hash of its code, so that a run does not go on with another.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

from attrs import frozen

from whale_core.errors import InputError
from whale_core.keys import content_hash
from whale_core.plugins import Registration, Setup
from whale_core.plugins.registered import THIS_PROGRAM, Origin, Registered
from whale_core.plugins.suggest import did_you_mean

METHODS = (types.FunctionType, staticmethod, classmethod, property)


@frozen
class NoSettings:
    """The configuration of a plugin without settings."""


_REGISTERED: dict[tuple[str, str], Registered] = {}


def registered() -> tuple[Registered, ...]:
    """Return what this program registered, in order."""
    return tuple(_REGISTERED.values())


def register(
    role: str,
    name: str,
    factory: Callable[[Any, Setup], Any],
    config: type[Any] = NoSettings,
    summary: str = "",
) -> None:
    """Let this program's runs use ``factory`` as the plugin ``name`` of ``role``.

    A plugin that this program registered under the same role and name before is replaced, so a
    notebook's cell may be run again. A name that an installed plugin has cannot be used.

    Args:
        role: ``domain``, ``verifier``, ``engine``, ``proposer``, ``model_update``,
            ``harness_search`` or ``scheduler``.
        name: what a configuration calls it.
        factory: a class or function, called as ``factory(settings, setup)``.
        config: a frozen attrs class with a default for every setting.
        summary: one line for lists.

    Raises:
        InputError: there is no such role, ``factory`` cannot be called, or a text is none.
    """
    from whale_core.plugins.checks import check_registered
    from whale_core.plugins.manager import ROLES

    if role not in ROLES:
        raise InputError(f"no role is called {role!r}{did_you_mean(str(role), ROLES)}")
    if not callable(factory):
        raise InputError(f"{role} {name!r}: the factory must be a class or a function")
    registration = Registration(name, factory, config, summary)
    try:
        check_registered(registration)
    except (TypeError, ValueError) as error:
        raise InputError(f"{role} {name!r}: {error}") from error
    origin = Origin(THIS_PROGRAM, f"code {code_hash(factory)}", "")
    _REGISTERED[role, name] = Registered(role, registration, origin)


def code_hash(code: object) -> str:
    """Return a hash of what a class or function does: its functions' code and plain constants.

    Not of what it calls elsewhere. It is the same in every process of one Python version.
    """
    return content_hash(*_described(code), length=12)


def _described(value: object) -> Iterator[str]:
    if isinstance(value, type):
        for base in value.__mro__[:-1]:
            for name, member in sorted(vars(base).items()):
                if isinstance(member, METHODS) or not name.startswith("__"):
                    yield from (name, *_described(member))
    elif isinstance(value, staticmethod | classmethod):
        yield from _described(value.__func__)
    elif isinstance(value, property):
        yield from _described(value.fget)
    elif isinstance(value, types.FunctionType):
        yield from _described(value.__code__)
        yield from _described(value.__defaults__)
    elif isinstance(value, types.CodeType):
        yield from (value.co_code.hex(), *value.co_names)
        for each in value.co_consts:
            yield from _described(each)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _described(each)
    elif isinstance(value, frozenset | set):
        yield from sorted(map(repr, value))
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from (repr(key), *_described(each))
    elif value is None or isinstance(value, str | bytes | bool | int | float | complex):
        yield repr(value)

"""Plain values to frozen attrs classes, strictly, with every error at its path.

Stricter than a converter library: a whole number given for ``float`` is accepted, nothing else is
turned into another type (``1.7`` and ``true`` are not ``int``; ``"3"`` is not a number).
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import attrs

from whale_core.plugins.suggest import did_you_mean

C = TypeVar("C")
Problems = list[str]
LARGEST = 2**63 - 1  # a whole number
SHOWN = 100  # characters of a value in a message
INVALID: Any = object()  # stands for a value that has been reported


def structure(values: Mapping[str, Any], cls: type[C], path: str, problems: Problems) -> C:
    """Return ``cls`` made from ``values``; append ``path: problem`` lines to ``problems``.

    The result is ``INVALID`` if there were problems. Raises ``TypeError`` or ``NameError`` if the
    class itself cannot be read (a type that no configuration file can hold).
    """
    before = len(problems)
    fields = {each.alias: each for each in attrs.fields(cls) if each.init}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    given: dict[str, Any] = {}
    for key, value in values.items():
        if key not in fields:
            problems.append(f"{join(path, key)}: unknown key{did_you_mean(join('', key), fields)}")
            continue
        made = _convert(value, hints[fields[key].name], join(path, key), problems)
        if made is not INVALID:
            given[key] = made
    missing = [
        key for key, each in fields.items() if each.default is attrs.NOTHING and key not in values
    ]
    problems.extend(f"{join(path, key)}: missing" for key in missing)
    _validate(cls, given, path, problems, complete=len(problems) == before)
    if len(problems) > before:
        return INVALID  # type: ignore[no-any-return]
    return cls(**given)


def unstructure(value: Any) -> Any:
    """Return a settings object as plain values (mappings, lists, text, numbers)."""
    if attrs.has(type(value)):
        fields = (each for each in attrs.fields(type(value)) if each.init)
        return {each.alias: unstructure(getattr(value, each.name)) for each in fields}
    if isinstance(value, Mapping):
        return {key: unstructure(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [unstructure(each) for each in value]
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value


def _validate(
    cls: type[Any], given: Mapping[str, Any], path: str, problems: Problems, *, complete: bool
) -> None:
    """Run the class's validators one by one: on construction attrs stops at the first."""
    try:
        with attrs.validators.disabled():
            instance = cls(**given)
    except (TypeError, ValueError) as error:
        if complete:  # else a consequence of what has been reported
            problems.append(f"{path}: {error}" if path else str(error))
        return
    for each in attrs.fields(cls):
        if each.validator is None or not (complete or each.alias in given):
            continue  # a default may be wrong beside the given values, once these are right
        try:
            each.validator(instance, each, getattr(instance, each.name))
        except (TypeError, ValueError) as error:
            message = str(error.args[0] if error.args else error)
            message = message.removeprefix(f"'{each.name}' ")
            problems.append(f"{join(path, each.alias)}: {message}")


def join(path: str, key: object) -> str:
    """Return the path of ``key`` below ``path``, on one line whatever the key is."""
    name = key if isinstance(key, str) and key and key.isprintable() else shown(key)
    return f"{path}.{name}" if path else name


# --- one value ------------------------------------------------------------------------------------


def _convert(value: Any, hint: Any, path: str, problems: Problems) -> Any:
    origin = get_origin(hint)
    if origin is typing.Annotated:
        return _convert(value, get_args(hint)[0], path, problems)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _convert_union(value, hint, path, problems)
    if isinstance(hint, type) and attrs.has(hint) and isinstance(value, Mapping):
        return structure(value, hint, path, problems)
    if origin in (tuple, list, Sequence) and isinstance(value, list | tuple):
        return _convert_items(value, hint, path, problems)
    if origin in (dict, Mapping) and isinstance(value, Mapping):
        return _convert_mapping(value, hint, path, problems)
    made = _convert_scalar(value, hint)
    if made is INVALID:
        problems.append(f"{path}: expected {_describe(hint)}, got {_describe_value(value)}")
    return made


def _convert_scalar(value: Any, hint: Any) -> Any:
    if get_origin(hint) is Literal:
        matching = [each for each in get_args(hint) if each == value and type(each) is type(value)]
        return matching[0] if matching else INVALID
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next((each for each in hint if each.value == value), INVALID)
    accepts: dict[Any, tuple[tuple[type, ...], Callable[[Any], Any]]] = {
        bool: ((bool,), bool),
        int: ((int,), int),
        float: ((int, float), float),
        str: ((str,), str),
        Path: ((str,), Path),
        type(None): ((type(None),), lambda none: none),
    }
    if hint not in accepts:
        _describe(hint)  # raises for a type that no configuration can hold
        return INVALID
    taken, make = accepts[hint]
    if not isinstance(value, taken) or (isinstance(value, bool) and hint is not bool):
        return INVALID
    if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
        return INVALID
    made = make(value)
    return INVALID if isinstance(made, float) and not math.isfinite(made) else made


def _convert_union(value: Any, hint: Any, path: str, problems: Problems) -> Any:
    members = get_args(hint)
    for member in members:
        found: Problems = []
        made = _convert(value, member, path, found)
        if not found:
            return made
    real = [member for member in members if member is not type(None)]
    if len(real) == 1 and value is not None:
        return _convert(value, real[0], path, problems)
    problems.append(f"{path}: expected {_describe(hint)}, got {_describe_value(value)}")
    return INVALID


def _convert_items(value: Sequence[Any], hint: Any, path: str, problems: Problems) -> Any:
    arguments = get_args(hint)
    sequence = tuple if get_origin(hint) is tuple else list
    if sequence is tuple and arguments[-1] is not Ellipsis:
        if len(value) != len(arguments):
            problems.append(f"{path}: expected {len(arguments)} items, got {len(value)}")
            return INVALID
        hints = list(arguments)
    else:
        hints = [arguments[0]] * len(value)
    made = [
        _convert(each, item_hint, f"{path}[{index}]", problems)
        for index, (each, item_hint) in enumerate(zip(value, hints, strict=True))
    ]
    return INVALID if any(each is INVALID for each in made) else sequence(made)


def _convert_mapping(value: Mapping[Any, Any], hint: Any, path: str, problems: Problems) -> Any:
    key_hint, item_hint = get_args(hint)
    made = {
        _convert(key, key_hint, join(path, key), problems): _convert(
            each, item_hint, join(path, key), problems
        )
        for key, each in value.items()
    }
    return INVALID if any(INVALID in pair for pair in made.items()) else made


def _describe(hint: Any) -> str:
    """Name a type as a message does. Raise ``TypeError`` for one that no configuration can hold."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_describe(each) for each in arguments)
    if origin is Literal:
        return "one of " + ", ".join(repr(each) for each in arguments)
    if origin in (tuple, list, Sequence):
        return "a list"
    if origin in (dict, Mapping) or (isinstance(hint, type) and attrs.has(hint)):
        return "a mapping"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "one of " + ", ".join(repr(each.value) for each in hint)
    names = {bool: "true or false", Path: "a path", type(None): "null"}
    if hint in names:
        return names[hint]
    if hint is float:
        return "a finite number"
    if hint in (int, str):
        return str(hint.__name__)
    raise TypeError(f"a setting cannot be of type {hint!r}")


def _describe_value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and not -LARGEST <= value <= LARGEST:
        return "a whole number that is too large"
    return f"{type(value).__name__} {shown(value)}"


def shown(value: Any) -> str:
    """Return ``repr(value)``, shortened, whatever the value is."""
    try:
        text = repr(value)
    except ValueError:  # a number of thousands of digits
        return "…"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"

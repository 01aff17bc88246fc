"""Settings that name files: where a relative path counts from.

On the command line it counts from the current folder, in a ``--config`` file from that file's
folder; ``~`` is the home folder. Resolving makes it absolute, so that the stored configuration
means the same wherever the run is resumed from. A path that begins with ``${…}`` stays as it is.
"""

from __future__ import annotations

import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import attrs
from attrs import frozen


def _if_given(text: str, path: str) -> bool:
    return bool(text)


@frozen
class PathSetting:
    """Marks a text setting that holds a path: ``Annotated[str, PathSetting()]``.

    ``is_path`` gets the text and the absolute path it would be; it says no where the text is a
    name. A setting of type ``Path`` needs no mark.
    """

    is_path: Callable[[str, str], bool] = _if_given


def anchored(value: Any, hint: Any, folder: Path) -> Any:
    """Return plain settings with the paths in them made absolute from ``folder``.

    ``hint`` is the type the settings will have; a value that does not fit it stays as it is.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        for mark in arguments[1:]:
            if isinstance(mark, PathSetting):
                return _absolute(value, mark, folder)
        return anchored(value, arguments[0], folder)
    if hint is Path:
        return _absolute(value, PathSetting(), folder)
    if origin in (Union, types.UnionType):
        for member in arguments:
            value = anchored(value, member, folder)
    elif isinstance(hint, type) and attrs.has(hint) and isinstance(value, Mapping):
        try:
            hints = typing.get_type_hints(hint, include_extras=True)
        except (TypeError, NameError):
            return value  # a class that cannot be read is reported when it is filled
        names = {each.alias: hints[each.name] for each in attrs.fields(hint) if each.init}
        return {key: anchored(each, names.get(key), folder) for key, each in value.items()}
    elif origin in (tuple, list, Sequence) and isinstance(value, list):
        return [anchored(each, arguments[0], folder) for each in value]
    elif origin in (dict, Mapping) and isinstance(value, Mapping):
        return {key: anchored(each, arguments[1], folder) for key, each in value.items()}
    return value


def _absolute(value: Any, mark: PathSetting, folder: Path) -> Any:
    if not isinstance(value, str) or value.startswith("${"):
        return value
    path = os.path.abspath(os.path.join(folder, os.path.expanduser(value)))
    return path if mark.is_path(value, path) else value

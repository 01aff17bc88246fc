"""Configuration layers: reading one, and laying one over another.

A layer is a mapping of role and section names. A role is ``{name: plugin, …its settings}``, in
short just the plugin's name. Where a layer names another plugin for a role, the settings that lower
layers made for the old one go with it; ``null`` leaves the role unfilled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from whale_core.config import yaml_text
from whale_core.config.references import check_references
from whale_core.config.structure import join, shown
from whale_core.errors import InputError
from whale_core.plugins.manager import ROLES

Layer = dict[str, Any]
OVERRIDE = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)=(.*)", re.DOTALL)


def read_file(path: Path) -> str:
    """Return the text of a user's file. Raise ``InputError`` naming file and line."""
    source = f"configuration file {path}"
    try:
        with path.open("rb") as file:
            data = file.read(4 * yaml_text.MAX_CHARACTERS + 1)  # and no more of an endless one
    except (OSError, ValueError) as error:
        raise InputError(f"{source}: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > 4 * yaml_text.MAX_CHARACTERS:
        raise InputError(f"{source}: longer than any configuration")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{source}, line {line}: not UTF-8 text ({error.reason})") from error


def parse(text: str, source: str) -> Layer:
    """Parse YAML text (duplicate keys are errors). ``source`` names it in messages."""
    try:
        layer = yaml_text.load(text)
    except yaml_text.YamlError as error:
        line = f", line {error.line}" if error.line else ""
        raise InputError(f"{source}{line}: {error.problem}") from error
    if layer is None:
        return {}
    if not isinstance(layer, dict):
        raise InputError(f"{source}: expected a mapping of settings")
    try:
        OmegaConf.create(layer)  # is every value of a kind that a setting can have?
    except OmegaConfBaseException as error:
        problem = _problem(error)
        line_number = yaml_text.line_of(text, problem)
        line = f", line {line_number}" if line_number else ""
        raise InputError(f"{source}{line}: {problem}") from error
    return normalised(layer)


def parse_overrides(overrides: Sequence[str]) -> Layer:
    """Turn ``key.sub=value`` items into one layer; their order matters for equal keys only."""
    layer: Layer = {}
    for item in overrides:
        match = OVERRIDE.fullmatch(item)
        parts = match[1].split(".") if match else []
        if match is None or len(parts) > yaml_text.MAX_DEPTH:
            raise InputError(
                f"cannot read the setting {shown(item)}: write key=value or key.sub=value"
            )
        try:
            value = yaml_text.load(match[2])
            for part in reversed(parts):
                value = {part: value}
            OmegaConf.create(value)
        except (yaml_text.YamlError, OmegaConfBaseException) as error:
            problem = getattr(error, "problem", None) or _first_line(error)
            raise InputError(
                f"{match[1]}: cannot read the value {shown(match[2])}: {problem}"
            ) from error
        layer = _merge(layer, normalised(value))
    return layer


def layer_of(settings: Mapping[str, Any]) -> Layer:
    """Turn settings given in Python into one layer: ``{"key": {"sub": …}}`` or ``{"key.sub": …}``.

    Values stand for themselves (text is not read as YAML); a path may be a ``Path``.
    """
    if not isinstance(settings, Mapping):
        raise InputError(f"settings are a mapping such as {{'seed': 3}}, got {shown(settings)}")
    layer: Layer = {}
    for key, value in settings.items():
        if not isinstance(key, str) or OVERRIDE.fullmatch(f"{key}=") is None:
            raise InputError(f"cannot read the key {shown(key)}: write 'key' or 'key.sub'")
        path = key.split(".")
        made = _plain(value, key, len(path))
        for part in reversed(path):
            made = {part: made}
        layer = _merge(layer, normalised(made))
    return layer


def normalised(layer: Mapping[str, Any]) -> Layer:
    """Write the short form of roles (``domain: chess``) in full."""
    return {
        key: {"name": value} if key in ROLES and isinstance(value, str) else value
        for key, value in layer.items()
    }


def lay_over(base: Layer, layer: Layer) -> Layer:
    """Return ``base`` with ``layer`` over it."""
    kept = dict(base)
    for role in ROLES:
        old, new = base.get(role), layer.get(role)
        if isinstance(old, dict) and isinstance(new, dict):
            renamed = "name" in new and new["name"] != old.get("name")
            if renamed:
                del kept[role]
    return _merge(kept, layer)


def recommended_layer(recommended: Mapping[str, Any], tree: Layer) -> Layer:
    """Return the part of a domain's recommendation that applies to ``tree``.

    A domain chooses itself and its verifier, never the method: for any other role its settings
    apply only while the role is filled, and by the plugin it names (by any, if it names none).
    """
    kept: Layer = {}
    for key, value in normalised(recommended).items():
        if key in ROLES and key not in ("domain", "verifier"):
            current = tree.get(key)
            if not isinstance(current, dict):
                continue
            wanted = value.get("name") if isinstance(value, Mapping) else None
            if wanted not in (None, current.get("name")):
                continue
        kept[key] = value
    return kept


def resolve_references(tree: Layer) -> Layer:
    """Replace ``${…}`` by what it refers to. Raise ``InputError`` naming the setting."""
    check_references(tree)
    try:
        plain = OmegaConf.to_container(OmegaConf.create(tree), resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise InputError(_problem(error)) from error
    return cast(Layer, plain)


def _plain(value: Any, path: str, depth: int) -> Any:
    """Return ``value`` as a file would give it. Raise ``InputError`` for what no file can hold."""
    if depth > yaml_text.MAX_DEPTH:
        raise InputError(f"{path}: nested more than {yaml_text.MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        return {key: _plain(each, join(path, key), depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, f"{path}[{i}]", depth + 1) for i, each in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(
        f"{path}: a setting is text, a number, true or false, a list or a mapping, "
        f"got {shown(value)}"
    )


def _problem(error: OmegaConfBaseException) -> str:
    """Return a problem's line, the setting first."""
    return f"{join('', error.full_key)}: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    lines = str(getattr(error, "msg", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _merge(base: Mapping[str, Any], layer: Mapping[str, Any]) -> Layer:
    """Merge mappings key by key; anything else replaces what was there.

    ``OmegaConf.merge`` differs in one point: it fails, without a path, where one layer has a list
    and the other a mapping. Here the value arrives and is reported with all other problems.
    """
    merged = dict(base)
    for key, value in layer.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = _merge(old, value)
        else:
            merged[key] = value
    return merged

"""Reading a plugin set, and the sets that it extends.

``extends: NAME`` at a set's top lays it over the set of that name, whoever registers that one. What
comes of it is one layer and one ``in_domain``, as if the set had been written out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from whale_core.config.layers import Layer, lay_over, normalised, parse
from whale_core.errors import InputError, PluginError, WhaleError
from whale_core.plugins.manager import ROLES, Plugins
from whale_core.plugins.registered import Failure
from whale_core.plugins.requirements import install_command

IN_DOMAIN = "in_domain"  # by domain, a set's settings where that domain is chosen
EXTENDS = "extends"  # the set that it is laid over


@frozen
class SetLayers:
    """What a plugin set says, the sets that it extends included.

    ``in_domain`` holds a layer by domain. ``texts`` are the names and YAML texts that it was read
    from, its own first. ``requires`` is what to give pip, of all of them.
    """

    layer: Layer
    in_domain: Mapping[str, Layer]
    texts: tuple[tuple[str, str], ...]
    requires: tuple[str, ...]


def read_set(plugins: Plugins, name: str) -> SetLayers:
    """Return the plugin set ``name``.

    Raises:
        InputError: nobody registers that name, or a set that it extends is not installed.
        PluginError: a set cannot be read, extends itself, or extends one that nobody has.
    """
    return _read(plugins, name, ())


def _read(plugins: Plugins, name: str, extending: tuple[str, ...]) -> SetLayers:
    found, origin = plugins.plugin_set(name)
    label = f"plugin set '{name}'"
    try:
        text = found.read()
    except (OSError, ImportError, UnicodeDecodeError) as error:
        raise PluginError(str(Failure.of(origin, f"reading {label}", error))) from error
    source = f"{label} of {origin}"
    try:
        layer = parse(text, source)
    except InputError as error:
        raise PluginError(str(error)) from error  # no user wrote it
    in_domain = _in_domain(layer.pop(IN_DOMAIN, {}), source)
    own = SetLayers(layer, in_domain, ((label, text),), found.requires)
    if EXTENDS not in layer:
        return own
    wanted = layer.pop(EXTENDS)
    if not isinstance(wanted, str):
        raise PluginError(f"{source}: {EXTENDS}: expected the name of a plugin set")
    chain = (*extending, name)
    if wanted in chain:
        circle = " extends ".join(f"'{each}'" for each in (*chain[chain.index(wanted) :], wanted))
        raise PluginError(
            f"{source}: {EXTENDS}: plugin sets extend each other in a circle: {circle}"
        )
    try:
        plugins.plugin_set(wanted)
    except WhaleError as error:
        message = f"{source}: {EXTENDS}: {error}"
        if command := install_command(found.requires):
            raise InputError(f"{message}: {command}") from error
        raise PluginError(message) from error
    return _over(_read(plugins, wanted, chain), own)


def _in_domain(value: Any, source: str) -> dict[str, Layer]:
    if not isinstance(value, Mapping) or not all(isinstance(v, Mapping) for v in value.values()):
        raise PluginError(f"{source}: {IN_DOMAIN}: expected settings by the name of a domain")
    return {domain: normalised(layer) for domain, layer in value.items()}


def _over(below: SetLayers, own: SetLayers) -> SetLayers:
    """Return ``own`` laid over ``below``: what it says stands above all that ``below`` says."""
    merged = lay_over(below.layer, own.layer)
    in_domain = {}
    for domain, layer in below.in_domain.items():
        here = domain == _name(merged.get("domain"))
        over = own.layer if here else {k: v for k, v in own.layer.items() if k != "domain"}
        in_domain[domain] = _left(layer, over, {**below.layer, "domain": {"name": domain}})
    for domain, layer in own.in_domain.items():
        in_domain[domain] = lay_over(in_domain.get(domain, {}), layer)
    return SetLayers(
        layer=merged,
        in_domain=in_domain,
        texts=(*own.texts, *below.texts),
        requires=tuple(dict.fromkeys((*own.requires, *below.requires))),
    )


def _left(layer: Layer, over: Layer, base: Layer) -> Layer:
    """Return what is left of a domain's ``layer`` of a set with ``base``, once ``over`` is over it.

    A role that ``over`` fills with another plugin, or with none, takes all of the old one's
    settings with it.
    """
    kept = dict(layer)
    for role in ROLES:
        named = _name(kept.get(role)) or _name(base.get(role))
        if role in kept and (_name(over.get(role)) or named) != named:
            del kept[role]
    return _without(kept, over)


def _without(layer: Mapping[str, Any], over: Mapping[str, Any]) -> Layer:
    """Return ``layer`` without the settings that ``over`` makes, nor sections that this empties."""
    kept: Layer = {}
    for key, value in layer.items():
        if key not in over:
            kept[key] = value
        elif (
            isinstance(value, Mapping)
            and isinstance(over[key], Mapping)
            and (left := _without(value, over[key]))
        ):
            kept[key] = left
    return kept


def _name(section: Any) -> str | None:
    name = section.get("name") if isinstance(section, Mapping) else None
    return name if isinstance(name, str) else None

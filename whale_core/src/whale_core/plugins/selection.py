"""Which installed plugins are loaded: two environment variables, as pytest has them.

``WHALE_DISABLE_PLUGINS=dist[,dist…]`` leaves distributions out, ``WHALE_LOAD_ONLY=dist[,dist…]``
leaves out all others. whale-core itself is always loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from attrs import frozen
from packaging.utils import canonicalize_name

from whale_core.errors import InputError
from whale_core.plugins.suggest import did_you_mean

DISABLE = "WHALE_DISABLE_PLUGINS"
LOAD_ONLY = "WHALE_LOAD_ONLY"
CORE = "whale-core"


@frozen
class Selection:
    """What the environment asks for; names are normalised. ``only`` None means no restriction."""

    disabled: frozenset[str] = frozenset()
    only: frozenset[str] | None = None

    def left_out_by(self, distribution: str) -> str:
        """Return the variable that leaves ``distribution`` out, or nothing."""
        name = canonicalize_name(distribution)
        if name in self.disabled:
            return DISABLE
        return LOAD_ONLY if self.only is not None and name not in self.only else ""


def read_selection(environment: Mapping[str, str], installed: Collection[str]) -> Selection:
    """Read the two variables; an empty one counts as unset.

    Raises:
        InputError: a name that no installed distribution with plugins has, or whale-core disabled.
    """
    disabled = _names(environment, DISABLE, installed)
    if CORE in disabled:
        raise InputError(f"{DISABLE}: {CORE} cannot be disabled")
    only = _names(environment, LOAD_ONLY, installed)
    return Selection(frozenset(disabled), frozenset(only) if only else None)


def _names(environment: Mapping[str, str], variable: str, installed: Collection[str]) -> list[str]:
    valid = {CORE, *(canonicalize_name(name) for name in installed)}
    names = [each.strip() for each in environment.get(variable, "").split(",") if each.strip()]
    for name in names:
        if canonicalize_name(name) not in valid:
            raise InputError(
                f"{variable}: no installed distribution with plugins is called '{name}'"
                f"{did_you_mean(canonicalize_name(name), valid)}"
            )
    return [canonicalize_name(name) for name in names]

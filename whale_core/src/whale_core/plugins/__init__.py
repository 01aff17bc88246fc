"""What a plugin package imports: the hook marker and the registration record.

A plugin package declares an entry point in the group ``whale`` that names a small module; the
module's hook implementations return ``Registration`` items. Heavy code is named as a
``"module:Class"`` string and imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pluggy
from attrs import frozen

from whale_core.roles import Domain, Proposer, RolloutEngine

ENTRY_POINT_GROUP = "whale"

hookspec = pluggy.HookspecMarker(ENTRY_POINT_GROUP)
hookimpl = pluggy.HookimplMarker(ENTRY_POINT_GROUP)


@frozen
class Registration:
    """One plugin of one role.

    ``factory`` names a class (or function) called as ``factory(config, setup)``; ``config`` names a
    frozen attrs class with a default for every setting, from which unknown keys and wrong types are
    reported before anything starts. A string directly below a setting says what it means; ``whale
    plugins NAME`` shows it. Either may be the object itself instead of its name
    (``whale_core.api.register`` does so).
    """

    name: str
    factory: str | Callable[[Any, Setup], Any]
    config: str | type[Any]
    summary: str


@frozen
class Setup:
    """What a factory may use besides its settings. Parts are built in this order: domain, verifier,
    engine, proposer, model update, harness search, scheduler. A check that builds parts without
    loading a model leaves ``engine`` out."""

    seed: int
    domain: Domain | None = None
    proposer: Proposer | None = None
    engine: RolloutEngine | None = None

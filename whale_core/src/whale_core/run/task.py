"""What judges an episode, built from a configuration: domain and verifier, without an engine."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from whale_core.config import Resolved
from whale_core.plugins import Setup
from whale_core.plugins.manager import Plugins
from whale_core.roles import Domain, Proposer, RolloutEngine, Verifier
from whale_core.run.sealed import SealedDomain


@frozen
class Task:
    """``domain`` is sealed; ``unsealed`` is for a run's final pass alone."""

    unsealed: Domain
    domain: Domain
    verifier: Verifier


def build_task(resolved: Resolved, plugins: Plugins) -> Task:
    """Build the domain and its verifier.

    Raises:
        InputError: settings the data cannot meet.
        PluginError: a plugin fails.
    """
    unsealed = make_part("domain", resolved, plugins)
    domain: Domain = SealedDomain(unsealed)
    return Task(unsealed, domain, make_part("verifier", resolved, plugins, domain))


def make_part(
    role: str,
    resolved: Resolved,
    plugins: Plugins,
    domain: Domain | None = None,
    proposer: Proposer | None = None,
    engine: RolloutEngine | None = None,
) -> Any:
    """Build the plugin that the configuration chooses for ``role``; None if it chooses none."""
    chosen = resolved.chosen.get(role)
    if chosen is None:
        return None
    setup = Setup(resolved.core.seed, domain, proposer, engine)
    return plugins.build(role, chosen.name, chosen.config, setup)

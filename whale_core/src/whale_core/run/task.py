"""What judges an episode, built from a configuration: domain and verifier, without an engine."""

from __future__ import annotations

from attrs import frozen

from whale_core.config import Resolved
from whale_core.plugins import Setup
from whale_core.plugins.manager import Plugins
from whale_core.roles import Domain, Verifier
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
    seed = resolved.core.seed
    chosen = resolved.chosen["domain"]
    unsealed = plugins.build("domain", chosen.name, chosen.config, Setup(seed))
    domain: Domain = SealedDomain(unsealed)
    chosen = resolved.chosen["verifier"]
    verifier = plugins.build("verifier", chosen.name, chosen.config, Setup(seed, domain))
    return Task(unsealed, domain, verifier)

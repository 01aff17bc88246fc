"""What is examined: a configuration and the parts that have been built from it so far."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import define, field

from whale_core.config import Resolved
from whale_core.plugins import Setup
from whale_core.plugins.manager import Plugins
from whale_core.records import Sampling
from whale_core.roles import Domain, RolloutEngine
from whale_core.run.sealed import SealedDomain


@define
class Subject:
    """One examination's state. A check that makes something others need leaves it here."""

    plugins: Plugins
    plugin_set: str = "default"
    files: Sequence[Path] = ()
    overrides: Sequence[str] = ()
    run_dir: Path = Path("runs")
    resolved: Resolved | None = None
    jail_kind: str = ""
    parts: dict[str, Any] = field(factory=dict)

    @property
    def settings(self) -> Resolved:
        """The resolved configuration, for checks that need the plugin set."""
        assert self.resolved is not None
        return self.resolved

    @property
    def engine(self) -> RolloutEngine:
        """The engine, for checks that need it."""
        engine: RolloutEngine = self.parts["engine"]
        return engine

    @property
    def domain(self) -> Domain:
        """The domain with its test split sealed, as plugins get it."""
        sealed: Domain = SealedDomain(self.parts["domain"])
        return sealed

    @property
    def sampling(self) -> Sampling:
        """How a run with these settings decodes."""
        rollout = self.settings.core.rollout
        return Sampling(rollout.temperature, rollout.top_k, rollout.top_p)

    def build(self, role: str) -> Any:
        """Build the plugin of ``role`` as a run does, and keep it; None for an unfilled role."""
        chosen = self.settings.chosen.get(role)
        if chosen is None:
            return None
        domain = self.domain if "domain" in self.parts else None
        setup = Setup(self.settings.core.seed, domain, self.parts.get("proposer"))
        self.parts[role] = self.plugins.build(role, chosen.name, chosen.config, setup)
        return self.parts[role]

"""What is examined: a configuration and the parts that have been built from it so far."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import define, field

from whale_core.config import Resolved
from whale_core.plugins.manager import Plugins
from whale_core.records import Sampling
from whale_core.roles import Domain, RolloutEngine
from whale_core.run.parts import sampling_of
from whale_core.run.sealed import SealedDomain
from whale_core.run.task import make_part


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
        return sampling_of(self.settings.core.rollout)

    def build(self, role: str) -> Any:
        """Build the plugin of ``role`` as a run does, and keep it; None for an unfilled role."""
        domain = self.domain if "domain" in self.parts else None
        proposer = self.parts.get("proposer")
        part = make_part(role, self.settings, self.plugins, domain, proposer)
        if part is not None:
            self.parts[role] = part
        return part

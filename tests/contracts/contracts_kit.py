"""Every plugin that is installed here, with small settings where the defaults are large."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from claude_kit import stand_in
from recording_kit import write_recording

from whale_core.plugins import Setup
from whale_core.plugins.manager import ROLES, Plugins, load_plugins
from whale_core.plugins.references import resolve
from whale_core.roles import Domain, RolloutEngine, Score, Workspace
from whale_core.testing.toy import DomainConfig, ToyDomain
from whale_metaharness.archive import Archive, ArchiveEntry
from whale_metaharness.workspace import Session, State, open_workspace
from whale_transformers.config import Config as EngineConfig
from whale_transformers.engine import TransformersEngine

PLUGINS: Plugins = load_plugins()

# Smaller than the defaults, so that a contract test takes seconds; everything else as registered.
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("engine", "transformers"): {"model": "tiny-random", "threads": 1, "slots": 8},
    ("model_update", "rsft"): {"prompts": 4, "group_size": 4, "lr": 1e-2},
    ("scheduler", "fixed"): {"epochs": 0.3},
    ("scheduler", "budget-share"): {"share": 0.5},
    ("scheduler", "diagnostic"): {"probe_iterations": 2},
}


def installed(role: str) -> list[str]:
    """Return the names of the plugins of a role; none may be broken or claimed twice."""
    assert role in ROLES
    assert not PLUGINS.failures and not PLUGINS.conflicts()
    return list(PLUGINS.registrations(role))


def settings_of_proposer(name: str, folder: Path) -> dict[str, Any]:
    """Return settings of proposers that need something of their own; it is made in ``folder``."""
    domain = ToyDomain(DomainConfig(), Setup(seed=0))
    base = domain.harnesses[domain.base_harness]
    candidate = base.replace('"Say one letter."', '"Say a vowel."')
    if name == "replay":
        return {"recording": str(write_recording(folder / "r", [[candidate]], [base], "toy"))}
    if name == "claude-code":
        writes = "propose('a', Path('archive/h0000/harness.py').read_text() + 'X = 1', changes='X')"
        return {"program": stand_in(folder / "bin", writes)}
    if name == "manual":
        return {"session_seconds": 0.1}  # nobody comes
    return {}


def factory_and_config(role: str, name: str, **settings: Any) -> tuple[Any, Any]:
    """Return a registered plugin's factory and configuration."""
    registered = PLUGINS.get(role, name)
    factory = resolve(registered, registered.registration.factory)
    return factory, PLUGINS.config_class(registered)(**SETTINGS.get((role, name), {}), **settings)


# Verifiers that no domain names as its own, and a domain that each can judge.
SECOND_VERIFIERS = {"strict-box": "math"}


def domain_of(verifier: str) -> Domain:
    """Return a domain that a verifier judges: the one that names it as its own."""
    for name in installed("domain"):
        factory, config = factory_and_config("domain", name)
        domain: Domain = factory(config, Setup(seed=0))
        if domain.verifier == verifier or SECOND_VERIFIERS.get(verifier) == name:
            return domain
    raise AssertionError(f"no domain's default verifier is {verifier}")


def tiny_engine() -> RolloutEngine:
    """Return a new engine with the same tiny weights every time."""
    return TransformersEngine(
        EngineConfig(model="tiny-random", threads=1, slots=8, dtype="float32"), Setup(seed=0)
    )


@contextmanager
def searched_workspace(folder: Path, count: int) -> Iterator[Workspace]:
    """Open a workspace of the search ``meta-harness`` with one archived, scored harness."""
    domain = ToyDomain(DomainConfig(), Setup(seed=0))
    source = domain.harnesses[domain.base_harness]
    archive = Archive.open(folder / "harnesses")
    entry = ArchiveEntry(archive.next_id(), source, cycle=1, phase=1, iteration=1)
    archive.add(entry)
    score = Score(entry.harness.id, "weights", 0.25, 4, 0, {"a": (0.25,) * 4}, 1.0, 8)
    archive.record(entry.id, score, cycle=1, phase=1, iteration=1)
    state = State(1, 1, 2, count, "weights", entry.id, entry.id, ("format",), "full", 65_536)
    with open_workspace(folder / "harnesses", Session(state, domain.brief)) as opened:
        yield opened

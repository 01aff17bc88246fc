"""Builds a run's parts from its resolved configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from whale_core.config import Resolved
from whale_core.errors import InputError
from whale_core.jail import probe
from whale_core.keys import content_hash, generator
from whale_core.plugins import Setup
from whale_core.plugins.manager import Plugins
from whale_core.records import Example
from whale_core.roles import (
    Domain,
    Harness,
    HarnessSearch,
    ModelUpdate,
    Proposer,
    RolloutEngine,
    Scheduler,
    Verifier,
)
from whale_core.run.sealed import SealedDomain


@frozen
class Parts:
    """Everything a run works with. ``domain`` is sealed; ``unsealed`` is the final pass's only."""

    unsealed: Domain
    domain: Domain
    verifier: Verifier
    engine: RolloutEngine
    proposer: Proposer | None
    update: ModelUpdate | None
    search: HarnessSearch | None
    scheduler: Scheduler
    h0: Harness
    jail_kind: str
    score_examples: tuple[Example, ...]
    selection_examples: tuple[Example, ...]


def build_parts(resolved: Resolved, plugins: Plugins) -> Parts:
    """Build the parts in order. Raises ``InputError`` for settings the data cannot meet."""
    core = resolved.core
    built: dict[str, Any] = {}

    def make(role: str) -> Any:
        chosen = resolved.chosen.get(role)
        if chosen is None:
            return None
        setup = Setup(core.seed, built.get("domain"), built.get("proposer"))
        return plugins.build(role, chosen.name, chosen.config, setup)

    jail_kind = probe(core.rollout.jail)
    unsealed = make("domain")
    built["domain"] = SealedDomain(unsealed)
    verifier = make("verifier")
    engine = make("engine")
    built["proposer"] = make("proposer")
    return Parts(
        unsealed=unsealed,
        domain=built["domain"],
        verifier=verifier,
        engine=engine,
        proposer=built["proposer"],
        update=make("model_update"),
        search=make("harness_search"),
        scheduler=make("scheduler"),
        h0=_base_harness(unsealed, core.harness),
        jail_kind=jail_kind,
        score_examples=chosen_examples(built["domain"], "harness", core.search.examples, "search"),
        selection_examples=chosen_examples(
            built["domain"], "selection", core.selection.examples, "selection"
        ),
    )


def chosen_examples(domain: Domain, split: str, count: int, key: str) -> tuple[Example, ...]:
    """Return ``count`` examples of a split: fixed by the data, the same for every seed."""
    examples = domain.split(split)
    if count > len(examples):
        raise InputError(
            f"{key}.examples={count}, but the {split} split has {len(examples)}: set it lower or "
            "give more data"
        )
    order = generator("examples", split).permutation(len(examples))[:count]
    return tuple(examples[int(index)] for index in order)


def _base_harness(domain: Domain, name: str) -> Harness:
    """Return h0: a base harness of the domain by name, or a file."""
    wanted = name or domain.base_harness
    sources: Mapping[str, str] = domain.harnesses
    if wanted in sources:
        source = sources[wanted]
    elif wanted.endswith(".py"):
        path = Path(wanted)
        if not path.is_file():
            raise InputError(f"harness={wanted}: no such file")
        source = path.read_text(encoding="utf-8")
    else:
        raise InputError(
            f"harness={wanted}: domain {domain.name} has {', '.join(sources)}; or give a .py file"
        )
    return Harness(content_hash(source), source, wanted)

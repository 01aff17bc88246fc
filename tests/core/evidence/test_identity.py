"""What a matrix keeps its rollouts under, and which runs it refuses to compare."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from worlds_kit import BOTH, LetterEngine, settings

from whale_core.config import resolve
from whale_core.evidence.identity import Identity, TaskFacts
from whale_core.plugins import Setup
from whale_core.plugins.manager import load_plugins
from whale_core.roles import Limits
from whale_core.run.parts import build_rollout_parts
from whale_core.testing.toy import DomainConfig, ToyDomain


class Longer(ToyDomain):
    limits = Limits(sampled_tokens=128)


class Served(ToyDomain):
    service = "index 1a2b"

    async def probe(self) -> None: ...


class Other(LetterEngine):
    max_context = 64

    def facts(self) -> dict[str, Any]:
        return {"engine": "scripted", "dtype": "bfloat16"}


def test_every_setting_that_defines_rollouts_has_rollouts_of_its_own(
    engines: list[LetterEngine],
) -> None:
    plugins = load_plugins()
    base = resolve(plugins, settings(BOTH), [], {})
    parts = build_rollout_parts(base, plugins)

    def facts(changes: dict[str, Any], **other: Any) -> TaskFacts:
        resolved = resolve(plugins, settings(BOTH), [], changes) if changes else base
        return TaskFacts.of(resolved, evolve(parts, **other))

    first, setup = facts({}), Setup(0)
    longer = Longer(DomainConfig(), setup)
    served = Served(DomainConfig(), setup)
    others = {
        "thinking": facts({"rollout.thinking": False}),
        "decoding": facts({"rollout.top_k": 7}),
        "domain settings": facts({"domain.weight": 40}),
        "limits": facts({}, domain=longer),
        "domain service": facts({}, unsealed=served),
        "jail": facts({}, jail_kind="bubblewrap"),
        "context": facts({}, engine=Other(engines[0]._world, setup)),
        "engine": evolve(first, engine={"engine": "scripted", "dtype": "bfloat16"}),
    }
    hashes = {name: Identity("w", "h", each, 0, "matrix").hash for name, each in others.items()}
    hashes["seed"] = Identity("w", "h", first, 1, "matrix").hash
    assert len({Identity("w", "h", first, 0, "matrix").hash, *hashes.values()}) == 1 + len(hashes)
    assert first == facts({})
    for name, each in others.items():
        found = each.difference(first)
        assert (found and found[0]) == (None if name == "engine" else name)
    only = others["decoding"].difference(first)
    assert only == ("decoding", {"top_k": 7}, {"top_k": 20})

"""Every recording that an installed domain ships is whole, clean and a discovery."""

from __future__ import annotations

from pathlib import Path

import pytest

from whale_core.plugins import Setup
from whale_core.plugins.manager import load_plugins
from whale_core.plugins.references import resolve
from whale_core.roles import Domain
from whale_metaharness.config import ReplayConfig
from whale_metaharness.proposers.replay import ReplayProposer
from whale_metaharness.recording_check import recording_problems

PLUGINS = load_plugins()


def domain_called(name: str) -> Domain:
    registered = PLUGINS.get("domain", name)
    factory = resolve(registered, registered.registration.factory)
    made: Domain = factory(PLUGINS.config_class(registered)(), Setup(seed=0))
    return made


@pytest.mark.parametrize("name", PLUGINS.registrations("domain"))
def test_shipped_recordings(name: str) -> None:
    domain = domain_called(name)
    shipped: dict[str, Path] = dict(getattr(domain, "recordings", {}))
    problems = [line for folder in shipped.values() for line in recording_problems(folder, domain)]
    assert problems == []
    for recording in shipped:
        ReplayProposer(ReplayConfig(recording), Setup(seed=0, domain=domain))

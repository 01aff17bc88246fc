"""Every recording that an installed domain ships is whole, clean and a discovery.

The domains' own recordings come next; until then the toy one shows that what is shipped is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from recording_kit import write_recording

from whale_core.abilities import HasRecordings
from whale_core.plugins import Setup
from whale_core.plugins.manager import load_plugins
from whale_core.plugins.references import resolve
from whale_core.roles import Domain
from whale_core.testing.toy import DomainConfig, ToyDomain
from whale_metaharness.members import replace_members
from whale_metaharness.proposers.replay import ReplayProposer
from whale_metaharness.proposers.settings import ReplayConfig
from whale_metaharness.recording_check import recording_problems

PLUGINS = load_plugins()


def domain_called(name: str) -> Domain:
    registered = PLUGINS.get("domain", name)
    factory = resolve(registered, registered.registration.factory)
    made: Domain = factory(PLUGINS.config_class(registered)(), Setup(seed=0))
    return made


def check_shipped(domain: Domain) -> tuple[list[str], list[str]]:
    """Return the names of what a domain ships, and what is wrong with it."""
    shipped = dict(domain.recordings) if isinstance(domain, HasRecordings) else {}
    problems = [line for folder in shipped.values() for line in recording_problems(folder, domain)]
    for recording in shipped:
        ReplayProposer(ReplayConfig(recording), Setup(seed=0, domain=domain))
    return list(shipped), problems


@pytest.mark.parametrize("name", PLUGINS.registrations("domain"))
def test_shipped_recordings(name: str) -> None:
    assert check_shipped(domain_called(name))[1] == []


class Shipping(ToyDomain):
    """The toy domain with recordings."""

    recordings: Mapping[str, Path] = {}


def test_a_recording_that_a_domain_ships_is_found_and_checked(tmp_path: Path) -> None:
    domain = Shipping(DomainConfig(), Setup(seed=0))
    base = domain.harnesses[domain.base_harness]
    new = [
        base.replace("\n    async def run(", f"\n    NEW = {n}\n\n    async def run(")
        for n in range(5)
    ]
    assert new[0] != base
    edit = replace_members(base, domain.catalogue[0].members)
    domain.recordings = {
        "good": write_recording(tmp_path / "good", [[each] for each in new], [base] * 5, "toy"),
        "bad": write_recording(
            tmp_path / "bad", [[each] for each in [*new, edit]], [base] * 6, "toy"
        ),
    }
    shipped, problems = check_shipped(domain)
    assert shipped == ["good", "bad"]
    (problem,) = problems
    assert "bad: round 6" in problem and "catalogue edit" in problem

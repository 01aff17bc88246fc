"""Every recording that an installed domain ships is whole, clean and a discovery, and passes all
gates when it is played."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from attrs import evolve
from recording_kit import write_recording

from whale_core.abilities import HasRecordings
from whale_core.config import resolve as settings
from whale_core.plugins import Setup
from whale_core.plugins.manager import load_plugins
from whale_core.plugins.references import resolve
from whale_core.roles import CandidateReport, Domain, Verifier
from whale_core.run.task import build_task
from whale_core.testing.engine import ScriptedEngine
from whale_core.testing.toy import DomainConfig, ToyDomain
from whale_core.testing.workbench import as_harness, workbench
from whale_metaharness.config import Config
from whale_metaharness.members import replace_members
from whale_metaharness.proposers.replay import ReplayProposer
from whale_metaharness.proposers.settings import ReplayConfig
from whale_metaharness.recording import Recording, read_recording
from whale_metaharness.recording_check import recording_problems
from whale_metaharness.search import MetaHarness

PLUGINS = load_plugins()
DOMAINS = ("chess", "math", "searchqa")
REPLIES = "<answer>x</answer> \\boxed{1} <move>e2e4</move>"


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


def shipped() -> list[tuple[str, str]]:
    """Return domain and name of every recording that the bundled domains ship."""
    return [(name, each) for name in DOMAINS for each in domain_called(name).recordings]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", DOMAINS)
def test_each_domain_ships_two_sequences_of_five_rounds(name: str) -> None:
    accounts = [read_recording(folder) for folder in domain_called(name).recordings.values()]  # type: ignore[attr-defined]
    assert len([each for each in accounts if len(each.iterations) >= 5]) >= 2


@pytest.mark.parametrize(("name", "recording"), shipped())
def test_what_is_shipped_passes_all_gates(name: str, recording: str, tmp_path: Path) -> None:
    resolved = settings(PLUGINS, "fst", [], [f"domain={name}", "domain.harness=16"])
    task = build_task(resolved, PLUGINS)
    account = read_recording(task.domain.recordings[recording])  # type: ignore[attr-defined]
    reports = asyncio.run(played(task.domain, task.verifier, account, recording, tmp_path))
    assert len(reports) == sum(len(each.candidates) for each in account.iterations)
    assert [(each.harness.id, each.rejection) for each in reports if each.rejection] == []


async def played(
    domain: Domain, verifier: Verifier, account: Recording, recording: str, folder: Path
) -> list[CandidateReport]:
    """Return what the search reports of a recording's candidates: real jail, scripted replies."""
    engine = ScriptedEngine(lambda prompt, rng: REPLIES[: int(rng.integers(1, len(REPLIES)))])
    base = account.base_harness or domain.base_harness
    most = max(len(each.candidates) for each in account.iterations)
    reports: list[CandidateReport] = []
    with workbench(domain, verifier, engine) as bench:
        context = bench.search_context(folder, await engine.weights_id(), 1, examples=2)
        context = evolve(
            context,
            harness=as_harness(domain.harnesses[base], base),
            null_examples=domain.split("harness")[:8],
        )
        proposer = ReplayProposer(ReplayConfig(recording), Setup(seed=0, domain=domain))
        steps = MetaHarness(Config(candidates=most), Setup(0, domain, proposer)).iterations(context)
        await anext(steps)
        for _ in account.iterations:
            reports += (await anext(steps)).candidates
        await steps.aclose()
    return reports


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

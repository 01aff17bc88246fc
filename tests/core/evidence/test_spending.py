"""What a diagnosis and a matrix say they spent, against counts at engine, judge and proposer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen
from worlds_kit import BOTH, LetterEngine, settings

from whale_core.api import register
from whale_core.config import resolve
from whale_core.evidence.matrix import Asked, measure_matrix
from whale_core.evidence.probe import probe_set
from whale_core.evidence.probe_size import Budget
from whale_core.plugins import Setup
from whale_core.plugins.manager import load_plugins
from whale_core.records import Example, Spent, Trajectory, Verdict
from whale_core.roles import Proposal, Workspace
from whale_core.run.reader import StoredRun
from whale_core.run.session import run
from whale_core.testing.toy import ToyVerifier, VerifierConfig
from whale_metaharness.mutation import MutationProposer
from whale_metaharness.proposers.settings import MutationConfig

COUNTS = ("calls", "prompt_tokens", "sampled_tokens", "usd")


@frozen
class NoSettings:
    """None."""


@pytest.fixture
def meters() -> Mapping[str, Counter[str]]:
    """Register a judge and a proposer that are paid; they count what they took."""
    counts: dict[str, Counter[str]] = {"judge": Counter(), "proposer": Counter()}

    class Judge(ToyVerifier):
        def __init__(self, config: NoSettings, setup: Setup) -> None:
            super().__init__(VerifierConfig(), setup)

        async def verify(self, example: Example, trajectory: Trajectory) -> Verdict:
            verdict = await super().verify(example, trajectory)
            spent = Spent(1, 7 + len(trajectory.answer or ""), 0, 2, 0.001)
            _count(counts["judge"], spent)
            return evolve(verdict, spent=spent)

    class Author(MutationProposer):
        def __init__(self, config: NoSettings, setup: Setup) -> None:
            super().__init__(MutationConfig(), setup)

        async def propose(self, workspace: Workspace) -> Proposal:
            spent = Spent(3, 100 + workspace.iteration, 0, 50, 0.25)
            _count(counts["proposer"], spent)
            return evolve(await super().propose(workspace), spent=spent)

    register("verifier", "judge", Judge, NoSettings)
    register("proposer", "author", Author, NoSettings)
    return counts


def _count(counts: Counter[str], spent: Spent) -> None:
    for name in COUNTS:
        counts[name] += getattr(spent, name)


def by_role(ledger: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Return what each role spent, of all purposes."""
    sums: dict[str, dict[str, float]] = {}
    for key, counts in ledger["by"].items():
        role = sums.setdefault(key.partition("/")[0], dict.fromkeys(COUNTS, 0.0))
        for name in COUNTS:
            role[name] += counts.get(name, 0)
    return sums


def check(ledger: Mapping[str, Any], engine: LetterEngine, meters: Any, roles: set[str]) -> None:
    told = by_role(ledger)
    assert {role for role, counts in told.items() if any(counts.values())} == roles
    for name, value in engine.generated.items():
        assert told["policy"][name] == value, name
    for role in roles - {"policy"}:
        assert told[role] == pytest.approx(dict(meters[role])), role
    for name in COUNTS:
        assert ledger[name] == pytest.approx(sum(each[name] for each in told.values())), name


@pytest.mark.slow
def test_it_is_told_to_the_token(
    engines: list[LetterEngine], meters: Mapping[str, Counter[str]]
) -> None:
    plugins = load_plugins()
    tree = settings(BOTH, verifier="judge", proposer="author")
    probed = probe_set(
        resolve(plugins, tree, [], {}), plugins, Budget(rollouts=32, examples=4, draws=1)
    )
    check(probed.ledger, engines[-1], meters, {"policy", "judge", "proposer"})
    usd = probed.search.cost.usd + probed.training.cost.usd + probed.confirmation.usd
    assert usd == pytest.approx(probed.ledger["usd"])

    run(resolve(plugins, tree, [], {}), plugins, Path("run"))
    for counts in meters.values():
        counts.clear()
    asked = Asked(examples=3, held_out=1)
    matrix = measure_matrix([StoredRun.open(Path("run"))], plugins, asked)
    check(matrix.ledger, engines[-1], meters, {"policy", "judge"})
    again = measure_matrix([StoredRun.open(Path("run"))], plugins, asked)
    assert again.ledger["usd"] == 0 == again.ledger["rollouts"]  # nothing is bought twice

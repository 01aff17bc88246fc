"""Agreement of two verifiers on stored rollouts: figures, drift, and a run judged again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve, frozen
from worlds_kit import LetterEngine

from whale_core.api import register
from whale_core.cli.main import main
from whale_core.evidence.agreement import Agreement, Judged, drift_of, growth_of
from whale_core.plugins import Setup
from whale_core.records import Example, Spent, Trajectory, Verdict
from whale_core.testing.toy import VOWELS


@pytest.mark.parametrize(
    ("counts", "agreement", "kappa"),
    [
        ((20, 5, 10, 15), 0.7, 0.4),  # the textbook's table
        ((50, 0, 0, 50), 1.0, 1.0),
        ((25, 25, 25, 25), 0.5, 0.0),
        ((10, 0, 0, 0), 1.0, None),  # nothing is beyond chance
        ((0, 0, 0, 0), 0.0, None),
    ],
)
def test_figures(counts: tuple[int, ...], agreement: float, kappa: float | None) -> None:
    table = Agreement(*counts)
    assert table.agreement == pytest.approx(agreement)
    assert table.kappa == (None if kappa is None else pytest.approx(kappa))


def test_which_way_they_differ() -> None:
    pairs = [(1.0, 0.0)] * 9 + [(0.0, 1.0)] + [(1.0, 1.0), (0.2, 0.4)]
    table = Agreement.of(pairs)
    assert (table.both, table.only_ours, table.only_theirs, table.neither) == (1, 9, 1, 1)
    assert table.bias_p == pytest.approx(2 * (1 + 10) / 2**10)  # McNemar, exact
    assert Agreement(3, 0, 0, 3).bias_p is None


def trained(step: int, ours: int, theirs: int, of: int = 40) -> list[Judged]:
    return [
        Judged(f"e{i}", "train", 1, step, float(i < ours), float(i < theirs)) for i in range(of)
    ]


def test_drift_is_a_gap_that_grows() -> None:
    steady = [each for step in range(6) for each in trained(step, 20 + step, 16 + step)]
    assert not (drift_of(steady) or pytest.fail()).drifts
    growing = [each for step in range(6) for each in trained(step, 10 + 5 * step, 10)]
    found = drift_of(growing)
    assert found is not None and found.drifts and found.by_step[-1] == (5, 35 / 40, 10 / 40)
    assert found.last.mean == pytest.approx(22.5 / 40)
    assert found.growth.mean == pytest.approx(20 / 40)
    assert drift_of(trained(1, 3, 3)) is None
    assert drift_of([]) is None


def test_a_prompt_that_comes_again_is_one_prompt() -> None:
    """However often the same eight prompts are rolled out, there are eight of them."""
    few = [each for step in range(3) for each in trained(step, 2 + step, 2, of=8)]
    often = [evolve(each, step=3 * each.step + i) for each in few for i in range(3)]
    a, b = drift_of(few), drift_of(often)
    assert a is not None and b is not None
    assert (a.first, a.last, a.growth) == (b.first, b.last, b.growth)


def test_the_interval_of_the_gaps_growth() -> None:
    """Of many prompts it is the interval of means: a paired one where the prompts are the same,
    and where they are others that of two samples."""
    rng = np.random.default_rng(0)
    n, strict = 400, np.zeros((2, 400))
    often = rng.random(n) * 0.5  # how often a prompt's passes are of ours alone
    first, last = (rng.random((4, n)) < often + gap for gap in (0.0, 0.1))
    gaps = np.stack([first.mean(axis=0), last.mean(axis=0)])
    pairs = [np.stack([gap, none], axis=1) for gap, none in zip(gaps, strict, strict=True)]
    same, others = (
        growth_of(*({f"{name}{i}": row for i, row in enumerate(each)} for name, each in some))
        for some in (zip("aa", pairs, strict=True), zip("ab", pairs, strict=True))
    )
    paired = (gaps[1] - gaps[0]).std(ddof=1) / n**0.5
    two = (gaps.var(axis=1, ddof=1).sum() / n) ** 0.5
    assert paired < 0.9 * two  # the prompts differ, so that it matters
    for found, error in ((same, paired), (others, two)):
        assert found.mean == pytest.approx(gaps[1].mean() - gaps[0].mean())
        assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.03)
        assert found.low > 0


@frozen
class NoSettings:
    """None."""


class EndsWell:
    """Passes a reply that ends in a vowel, whatever the harness read: a lenient verifier."""

    version = "ends-well-1"

    def __init__(self, config: NoSettings, setup: Setup) -> None: ...

    async def verify(self, example: Example, trajectory: Trajectory) -> Verdict:
        return Verdict(float(trajectory.calls[0].text[-1] in VOWELS))


class Paid(EndsWell):
    """One that asks a model."""

    priced, notes = True, ()

    async def verify(self, example: Example, trajectory: Trajectory) -> Verdict:
        return Verdict(1.0, spent=Spent(1))


@pytest.mark.slow
def test_a_run_is_judged_again(
    run_folder: Path, engines: list[LetterEngine], capsys: pytest.CaptureFixture[str]
) -> None:
    register("verifier", "ends-well", EndsWell, NoSettings)
    register("verifier", "paid", Paid, NoSettings)
    assert main(["verifier", str(run_folder), "--json"]) == 0
    same = json.loads(capsys.readouterr().out)
    assert same["ours"] == same["theirs"] == "toy"  # a function of its inputs
    assert same["whole"]["agreement"] == 1.0 and same["whole"]["rollouts"] > 100
    assert set(same["by_purpose"]) == {"train", "score", "select", "smoke"}  # never test

    assert main(["verifier", str(run_folder), "--against", "ends-well", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    train = told["by_purpose"]["train"]
    # Whoever passes said a vowel last or first; hidden vowels pass the lenient one alone.
    assert train["only_theirs"] > 0 == train["only_ours"] and train["rollouts"] == 64
    assert train["bias_p"] < 0.05
    assert main(["verifier", str(run_folder), "--against", "ends-well"]) == 0
    assert "ends-well alone" in capsys.readouterr().out
    assert main(["verifier", str(run_folder), "--against", "paid"]) == 2
    assert "asks a model" in capsys.readouterr().err
    assert main(["verifier", str(run_folder), "--against", "nobody"]) == 2
    assert engines == []  # no model was built

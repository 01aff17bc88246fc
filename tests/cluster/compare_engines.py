"""Run one chess run on vLLM and the same on the embedded engine; write their times and results.

    python tests/cluster/compare_engines.py            in the cluster lane; half an hour on one
                                                       core; writes
                                                       docs/evidence/cluster/chess.json
    python tests/cluster/compare_engines.py --smoke --output FILE      the toy domain, a tiny model

Both runs have the plugin set ``default`` in the domain ``chess`` (tuning data, SETTINGS below),
SmolLM2-135M in bfloat16, trainer ``torch`` and the same seed; only the engine differs: the embedded
one lends its module to the trainer, the server gets a folder after each weight step. Sampled tokens
differ between engines, so the runs are two draws of the same experiment, not one run twice.

Stopped, the command goes on where it was when it is given again: both run folders are in
``--folder``. A run that has ended is only read.

Seconds are split into *rollouts* (of all purposes, harness processes included), *training*
(gradients and optimizer), *hand_over* (the engine serves what was trained and was checked) and
*else* (the server's start, proposing, gates, checkpoints, loading weights for the final pairs).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measure_kit import EVIDENCE, facts, write

from whale_core.errors import WhaleError
from whale_core.plugins import hookimpl

RESULT = EVIDENCE / "chess.json"
VERSIONS = ("vllm", "torch", "transformers")
ENGINES = ("transformers", "vllm")
PAIRS = ("theta0_h0", "theta0_h", "theta_h0", "theta_h")
DTYPE = "bfloat16"
SETTINGS: Mapping[str, Any] = {
    "domain": "chess",
    "domain.tuning": True,
    "domain.weight": 576,  # an eighth of it a phase: three weight steps
    "scheduler.iterations": 3,
    "selection": {"examples": 32, "draws": 1},
    "test": {"examples": 100, "draws": 1},
    "model_update.trainer": "torch",
}


def main() -> int:
    """Make both runs, or go on with them; write what came of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/compare-engines"))
    parser.add_argument("--output", type=Path, default=RESULT, metavar="FILE")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="the toy domain and a tiny model")
    options = parser.parse_args()
    if options.smoke and options.output == RESULT:
        parser.error("--smoke measures nothing: give --output FILE")
    name = "smoke" if options.smoke else "default"
    settings = {} if options.smoke else SETTINGS
    runs = {}
    for engine in ENGINES:
        try:
            above = {**settings, "engine": engine_settings(engine, options.smoke)}
            runs[engine] = measured(engine, name, above, options)
        except WhaleError as error:
            print(f"error: {engine}: {error}", file=sys.stderr)
            return error.exit_code
        print(json.dumps({engine: runs[engine]}), flush=True)
    result = {
        "command": "python tests/cluster/compare_engines.py",
        **facts(VERSIONS),
        "cores": len(os.sched_getaffinity(0)),
        "plugin_set": name,
        "settings": dict(settings),
        "dtype": DTYPE,
        "seed": options.seed,
        "runs": runs,
    }
    write(options.output, result)
    return 0 if all(run["updates"] for run in runs.values()) else 1


def engine_settings(engine: str, smoke: bool) -> dict[str, Any]:
    """Return an engine's settings, the model and its numbers the same for both."""
    from whale_transformers.models import model_source

    model = "tiny-random" if smoke else "smollm2-135m-instruct"
    if engine == "transformers":
        return {"name": engine, "model": model, "dtype": DTYPE}
    return {
        "name": engine,
        "model": model_source(model),
        "dtype": DTYPE,
        "max_context": 2000,  # the model's own is 2048
        "gpu_memory": 0.1,
        "arguments": ["--enforce-eager"],
    }


def measured(
    engine: str, name: str, settings: Mapping[str, Any], options: argparse.Namespace
) -> dict[str, Any]:
    """Make a run, or go on with it; return what it took and what came of it."""
    from whale_core.api import resume, run
    from whale_rsft import places

    folder = options.folder.absolute() / engine
    place = places.Served if engine == "transformers" else places.Owned
    hand_overs = HandOvers(options.folder.absolute() / f"{engine}-hand-over.jsonl", place)
    if (folder / "journal.jsonl").is_file():
        found = resume(folder, observers=[hand_overs])
    else:
        folder.parent.mkdir(parents=True, exist_ok=True)
        found = run(name, settings, seed=options.seed, run_dir=folder, observers=[hand_overs])
    by = found.ledger["by"]
    policy = {purpose: each for purpose, each in by.items() if purpose.startswith("policy/")}
    hand_over = hand_overs.seconds()
    seconds = {
        "rollouts": sum(each["seconds"] for each in policy.values()),
        "training": sum(s.seconds - s.rollout_seconds for s in found.steps) - hand_over,
        "hand_over": hand_over,
    }
    whole = found.data["seconds"]
    seconds["else"] = whole - sum(seconds.values())
    return {
        "seconds": whole,
        "split": {part: round(each, 1) for part, each in seconds.items()},
        "hand_overs": len(hand_overs.by_step()),
        "rollouts_per_second": {
            purpose.removeprefix("policy/"): round(each["rollouts"] / each["seconds"], 2)
            for purpose, each in policy.items()
            if each["seconds"]
        },
        "rollouts": sum(each["rollouts"] for each in policy.values()),
        "sampled_tokens": sum(each["sampled_tokens"] for each in policy.values()),
        "steps": len(found.steps),
        "updates": sum(step.updates for step in found.steps),
        "accepted": [step.accepted for step in found.steps],
        "decided_at_phase": found.data["decided_at_phase"],
        "pairs": {
            pair: {key: found.pairs[pair][key] for key in ("mean", "low", "high", "examples")}
            for pair in PAIRS
        },
    }


class HandOvers:
    """Times the trainer's hand-overs and keeps them beside the run, by weight step.

    A step that is made again after an interruption is the one that counts.
    """

    def __init__(self, path: Path, place: Any) -> None:
        """Time those of ``place``, a class, from now on; ``path`` may hold earlier ones."""
        self._path = path
        self._since: list[float] = []
        place.hand_over = self._timed(place.hand_over)

    def _timed(self, hand_over: Any) -> Any:
        async def timed(place: Any, probe: Any) -> None:
            begun = time.perf_counter()
            await hand_over(place, probe)
            self._since.append(time.perf_counter() - begun)

        return timed

    @hookimpl
    def whale_on_weight_step(self, step: Any) -> None:
        """Keep what the step's hand-over took."""
        if self._since:
            with self._path.open("a") as lines:
                lines.write(json.dumps({"step": step.step, "seconds": sum(self._since)}) + "\n")
        self._since.clear()

    def by_step(self) -> dict[int, float]:
        """Return the seconds of each step that handed weights over."""
        if not self._path.is_file():
            return {}
        lines = [json.loads(line) for line in self._path.read_text().splitlines()]
        return {line["step"]: line["seconds"] for line in lines}

    def seconds(self) -> float:
        """Return what all of them took."""
        return sum(self.by_step().values())


if __name__ == "__main__":
    sys.exit(main())

"""Measure that the trainers agree, and write docs/evidence/cluster/gradients.json.

    python tests/cluster/measure_gradients.py          in the cluster lane; some minutes

Loss and gradient norm of three AdamW steps on ragged rows (masks with holes, at least three uneven
micro-batches a rank), on a tiny Llama and a tiny Qwen3.5 hybrid: float32 autograd row by row;
trainer ``torch``, where it takes the model; trainer ``openrlhf`` with ZeRO 1, 2 and 3 on one and
two ranks. Exits 1 when one differs from the reference by more than is stated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from attrs import frozen
from measure_kit import EVIDENCE, ROOT, facts, write
from measure_kit import sources_hash as hash_of

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "rsft")]

RESULT = EVIDENCE / "gradients.json"
PACKAGE = ROOT / "whale_rsft/src/whale_rsft/openrlhf"
SOURCES = ("actor.py", "adapter.py", "batches.py")  # what the result is about
VERSIONS = ("openrlhf", "deepspeed", "ray", "torch", "transformers")
# Largest relative difference from the float32 reference. float32 sums in another order; bfloat16
# has 8 bits, so a loss may differ by one unit in the last place, 2^-8.
TOLERANCES = {
    "torch float32": {"loss": 1e-5, "grad_norm": 1e-4},
    "bfloat16": {"loss": 2**-8, "grad_norm": 1e-2},
}


@frozen
class Case:
    """What the actors are asked for."""

    model: str
    zero: int
    loss: str


CASES = tuple(
    Case(model, zero, "token-mean") for model in ("llama", "qwen3.5") for zero in (1, 2, 3)
)
CASES += (Case("llama", 2, "seq-mean-token-mean"), Case("llama", 2, "rank-local"))


def sources_hash() -> str:
    """Return the hash of the sources that were measured."""
    return hash_of(PACKAGE, SOURCES)


def main() -> int:
    """Measure all, write, and say what is out of bounds."""
    sources = sources_hash()
    with tempfile.TemporaryDirectory() as folder:
        cases = list(measured(Path(folder)))
    result = {
        "command": "python tests/cluster/measure_gradients.py",
        "sources": sources,
        **facts(VERSIONS),
        "tolerances": TOLERANCES,
        "cases": cases,
    }
    write(RESULT, result)
    wrong = [case for case in cases if not within(case)]
    for case in wrong:
        print(f"out of bounds: {case}", file=sys.stderr)
    return 1 if wrong else 0


def measured(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield every case, and print it."""
    from cluster_kit import MODELS, build_model, reference

    folders = {name: build_model(name, folder / name) for name in MODELS}
    for name in MODELS:
        yield from torch_cases(name, folders[name])
    for ranks in (1, 2):
        found = openrlhf_steps(ranks, folder)
        for one in CASES:
            expected = reference(folders[one.model], one.loss)
            yield case(one.model, "openrlhf", "bfloat16", found[one], expected, one, ranks)


def torch_cases(name: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the reference, and trainer ``torch`` in float32 and bfloat16."""
    import torch
    from cluster_kit import CONFIG, STEPS, Measured, load, ragged_rows, reference
    from rsft_kit import LendingEngine

    from whale_rsft.torch_trainer import TorchTrainer

    expected = reference(folder)
    plain = Case(name, 0, "token-mean")
    yield case(name, "reference", "float32", expected, expected, plain)
    for dtype in (torch.float32, torch.bfloat16):
        module = load(folder, dtype).eval().requires_grad_(False)
        engine = cast(Any, LendingEngine(module))
        done = asyncio.run(TorchTrainer(CONFIG).train([ragged_rows()] * STEPS, engine)).updates
        found = Measured(
            tuple(each.loss.nll / each.divisor for each in done),
            tuple(each.grad_norm for each in done),
        )
        yield case(name, "torch", str(dtype).removeprefix("torch."), found, expected, plain)


def openrlhf_steps(ranks: int, folder: Path) -> dict[Case, Any]:
    """Return what ``ranks`` actors report of every case, each in a process of its own.

    Without Ray, which only starts the processes and carries the calls.
    """
    from cluster_kit import Measured

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, "--folder", str(folder), "--port", str(port)]
    command += ["--ranks", str(ranks), "--rank"]
    started = [subprocess.Popen([*command, str(rank)]) for rank in range(ranks)]
    failed = [rank for rank, each in enumerate(started) if each.wait()]
    if failed:
        raise SystemExit(f"ranks {failed} of {ranks} failed")
    reports = [json.loads((folder / f"{ranks}-{rank}.json").read_text()) for rank in range(ranks)]
    return {
        one: Measured(
            tuple(sum(step[0] for step in steps) for steps in zip(*every, strict=True)),
            tuple(step[1] for step in every[0]),
        )
        for one, *every in zip(CASES, *reports, strict=True)
    }


def work(rank: int, ranks: int, port: int, folder: Path) -> None:
    """Be one rank: make all cases' steps and write down this rank's part of the loss."""
    import cpu_shims

    cpu_shims.install()
    from cluster_kit import CONFIG, LOCAL_RANKS, STEPS, ragged_rows

    from whale_rsft.losses import row_weights
    from whale_rsft.openrlhf.actor import RSFTActor
    from whale_rsft.openrlhf.batches import shares
    from whale_rsft.openrlhf.options import Options

    actor = RSFTActor(ranks, rank, "127.0.0.1", port)
    rows, reports = ragged_rows(), []
    for one in CASES:
        weights, divisor = row_weights(rows, one.loss, LOCAL_RANKS)
        parts = shares(rows, weights, divisor, ranks, CONFIG.micro_tokens)
        assert len(parts[0].micro_batches) >= 3
        options = Options.of(CONFIG, one.zero, seed=0)
        actor.init_model_from_pretrained(options, folder / one.model)
        steps = [actor.step(parts[rank]) for _ in range(STEPS)]
        reports.append([(step.nll / divisor, step.grad_norm) for step in steps])
    (folder / f"{ranks}-{rank}.json").write_text(json.dumps(reports))


def case(
    model: str, trainer: str, dtype: str, found: Any, expected: Any, of: Case, ranks: int = 1
) -> dict[str, Any]:
    """Print and return one case as it is written down."""
    result = {
        "model": model,
        "trainer": trainer,
        "dtype": dtype,
        "zero": of.zero,
        "ranks": ranks,
        "loss_kind": of.loss,
        "loss": [round(each, 6) for each in found.loss],
        "grad_norm": [round(each, 6) for each in found.grad_norm],
        "loss_difference": worst(found.loss, expected.loss),
        "grad_norm_difference": worst(found.grad_norm, expected.grad_norm),
    }
    print(json.dumps(result), flush=True)
    return result


def worst(found: tuple[float, ...], expected: tuple[float, ...]) -> float:
    """Return the largest relative difference."""
    return max(abs(f - e) / abs(e) for f, e in zip(found, expected, strict=True))


def within(case: dict[str, Any]) -> bool:
    """Return whether a case agrees with the reference as stated."""
    bounds = TOLERANCES["bfloat16" if case["dtype"] == "bfloat16" else "torch float32"]
    return all(case[f"{name}_difference"] <= bound for name, bound in bounds.items())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, help="for the processes that this starts")
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--port", type=int)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.rank is None:
        sys.exit(main())
    work(given.rank, given.ranks, given.port, given.folder)

"""Measure that the trainers agree, and write docs/evidence/cluster/gradients.json.

    python tests/cluster/measure_gradients.py          in the cluster lane; some minutes

Loss and gradient norm of three AdamW steps on ragged rows (masks with holes, at least three uneven
micro-batches a rank), on a tiny Llama and a tiny Qwen3.5 hybrid: float32 autograd row by row;
trainer ``torch``, where it takes the model; trainer ``openrlhf`` with ZeRO 1, 2 and 3 on one and
two ranks. Exits 1 when one differs from the reference by more than is stated.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "rsft")]

RESULT = ROOT / "docs/evidence/cluster/gradients.json"
PACKAGE = ROOT / "whale_rsft/src/whale_rsft/openrlhf"
SOURCES = ("actor.py", "adapter.py", "batches.py")  # what the result is about
VERSIONS = ("openrlhf", "deepspeed", "ray", "torch", "transformers")
# Largest relative difference from the float32 reference. float32 sums in another order; bfloat16
# has 8 bits, in forward and backward pass.
TOLERANCES = {
    "torch float32": {"loss": 1e-5, "grad_norm": 1e-4},
    "bfloat16": {"loss": 2e-3, "grad_norm": 1e-2},
}


def sources_hash() -> str:
    """Return the hash of the sources that were measured."""
    whole = hashlib.sha256()
    for name in SOURCES:
        whole.update(name.encode() + b"\0" + (PACKAGE / name).read_bytes())
    return whole.hexdigest()


def main() -> int:
    """Measure all, write, and say what is out of bounds."""
    from cluster_kit import ray_on_cpu

    cases = []
    with tempfile.TemporaryDirectory() as folder, ray_on_cpu():
        for case in measured(Path(folder)):
            print(json.dumps(case), flush=True)
            cases.append(case)
    result = {
        "command": "python tests/cluster/measure_gradients.py",
        "sources": sources_hash(),
        "commit": git("rev-parse", "HEAD"),
        "uncommitted": bool(git("status", "--porcelain", "--untracked-files=no")),
        "versions": {name: version(name) for name in VERSIONS},
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, CPU only",
        "tolerances": TOLERANCES,
        "cases": cases,
    }
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    wrong = [case for case in cases if not within(case)]
    for case in wrong:
        print(f"out of bounds: {case}", file=sys.stderr)
    return 1 if wrong else 0


def measured(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield every case."""
    from cluster_kit import MODELS, build_model, reference

    folders = {name: build_model(name, folder / name) for name in MODELS}
    references = {name: reference(folders[name]) for name in MODELS}
    for name in MODELS:
        yield from torch_cases(name, folders[name], references[name])
    for ranks in (1, 2):
        yield from openrlhf_cases(ranks, folders, references)


def torch_cases(name: str, folder: Path, expected: Any) -> Iterator[dict[str, Any]]:
    """Yield trainer ``torch`` in float32 and bfloat16."""
    import torch
    from cluster_kit import CONFIG, STEPS, Measured, load, ragged_rows
    from rsft_kit import LendingEngine

    from whale_core.errors import InputError
    from whale_rsft.packing import pack_rows
    from whale_rsft.torch_trainer import TorchTrainer

    yield case(name, "reference", "float32", expected, expected, 1)
    for dtype in (torch.float32, torch.bfloat16):
        module = load(folder, dtype).eval().requires_grad_(False)
        engine = cast(Any, LendingEngine(module))
        trainer = TorchTrainer(CONFIG)
        batches = [ragged_rows()] * STEPS
        try:
            done = asyncio.run(trainer.train(batches, engine)).updates
        except InputError as error:
            print(f"{name}: {error}", flush=True)
            return
        found = Measured(
            tuple(each.loss.nll / each.tokens for each in done),
            tuple(each.grad_norm for each in done),
        )
        short = str(dtype).removeprefix("torch.")
        packs = len(pack_rows(batches[0], CONFIG.micro_tokens))
        yield case(name, "torch", short, found, expected, packs)


def openrlhf_cases(
    ranks: int, folders: dict[str, Path], references: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield trainer ``openrlhf``'s actors with every stage, the same processes throughout."""
    from cluster_kit import reference

    from whale_rsft.openrlhf.session import Session
    from whale_rsft.openrlhf.settings import OpenRLHF

    session = Session(OpenRLHF(ranks=ranks, gpus_per_rank=0.0))
    try:
        for name, folder in folders.items():
            for zero in (1, 2, 3):
                found, most = steps(session, folder, zero, ranks, "token-mean")
                expected = references[name]
                yield case(name, "openrlhf", "bfloat16", found, expected, most, zero, ranks)
        for loss in ("seq-mean-token-mean", "rank-local"):
            found, most = steps(session, folders["llama"], 2, ranks, loss)
            expected = reference(folders["llama"], loss, ranks)
            yield case("llama", "openrlhf", "bfloat16", found, expected, most, 2, ranks, loss)
    finally:
        session.close()


def steps(session: Any, folder: Path, zero: int, ranks: int, loss: Any) -> tuple[Any, int]:
    """Return what the actors report, and how many micro-batches a rank had."""
    from cluster_kit import CONFIG, STEPS, Measured, ragged_rows

    from whale_rsft.openrlhf.batches import shares
    from whale_rsft.openrlhf.options import Options

    config = CONFIG
    options = Options(
        zero, config.lr, config.beta1, config.beta2, config.weight_decay, config.clip, seed=0
    )
    session.call("init_model_from_pretrained", options, folder)
    losses, norms, most = [], [], 0
    for _ in range(STEPS):
        parts = shares(ragged_rows(), ranks, config.micro_tokens, loss)
        done = session.call_each("step", parts)
        by = [part.divisor * (ranks if part.ranks == 1 else 1) for part in parts]
        losses.append(sum(each.nll / divisor for each, divisor in zip(done, by, strict=True)))
        norms.append(done[0].grad_norm)
        most = max(most, len(parts[0].micro_batches))
    return Measured(tuple(losses), tuple(norms)), most


def case(
    model: str,
    trainer: str,
    dtype: str,
    found: Any,
    expected: Any,
    micro_batches: int,
    zero: int = 0,
    ranks: int = 1,
    loss: str = "token-mean",
) -> dict[str, Any]:
    """Return one case as it is written down."""
    return {
        "model": model,
        "trainer": trainer,
        "dtype": dtype,
        "zero": zero,
        "ranks": ranks,
        "loss_kind": loss,
        "micro_batches": micro_batches,
        "loss": [round(each, 6) for each in found.loss],
        "grad_norm": [round(each, 6) for each in found.grad_norm],
        "loss_difference": worst(found.loss, expected.loss),
        "grad_norm_difference": worst(found.grad_norm, expected.grad_norm),
    }


def worst(found: tuple[float, ...], expected: tuple[float, ...]) -> float:
    """Return the largest relative difference."""
    return max(abs(f - e) / abs(e) for f, e in zip(found, expected, strict=True))


def within(case: dict[str, Any]) -> bool:
    """Return whether a case agrees with the reference as stated."""
    bounds = TOLERANCES["bfloat16" if case["dtype"] == "bfloat16" else "torch float32"]
    return all(case[f"{name}_difference"] <= bound for name, bound in bounds.items())


def git(*arguments: str) -> str:
    """Return what git says of this checkout."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())

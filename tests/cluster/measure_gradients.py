"""Measure that the trainers agree, and write docs/evidence/cluster/gradients.json.

    python tests/cluster/measure_gradients.py          in the cluster lane; some minutes
    python tests/cluster/measure_gradients.py --device cuda --output FILE     on GPUs, one each rank

Loss and gradient norm of three AdamW steps on ragged rows (masks with holes, at least three uneven
micro-batches a rank), on a tiny Llama and a tiny Qwen3.5 hybrid: float32 autograd row by row;
trainer ``torch``, where it takes the model; trainer ``openrlhf`` with ZeRO 1, 2 and 3 on one and
two ranks. Exits 1 when one differs from the reference by more than is stated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
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


MODELS = ("llama", "qwen3.5")
CASES = tuple(Case(model, zero, "token-mean") for model in MODELS for zero in (1, 2, 3))
CASES += (Case("llama", 2, "seq-mean-token-mean"), Case("llama", 2, "rank-local"))


def sources_hash() -> str:
    """Return the hash of the sources that were measured."""
    return hash_of(PACKAGE, SOURCES)


def main(options: argparse.Namespace) -> int:
    """Measure all, write, and say what is out of bounds."""
    sources = sources_hash()
    with tempfile.TemporaryDirectory() as folder:
        cases = list(measured(Path(folder), options))
    result = {
        "command": "python tests/cluster/measure_gradients.py",
        "sources": sources,
        **facts(VERSIONS, "CPU only" if options.device == "cpu" else device_name()),
        "tolerances": TOLERANCES,
        "cases": cases,
    }
    write(options.output, result)
    wrong = [case for case in cases if not within(case)]
    for case in wrong:
        print(f"out of bounds: {case}", file=sys.stderr)
    return 1 if wrong else 0


def measured(folder: Path, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield every case, and print it."""
    from cluster_kit import build_model, reference

    folders = {name: build_model(name, folder / name) for name in options.models}
    for name in options.models:
        yield from torch_cases(name, folders[name], options.device)
    for ranks in options.ranks:
        found = openrlhf_steps(ranks, folder, options)
        for one in chosen(options):
            expected = reference(folders[one.model], one.loss)
            yield case(one.model, "openrlhf", "bfloat16", found[one], expected, one, ranks)


def chosen(options: argparse.Namespace) -> list[Case]:
    """Return the cases of the models and stages that are asked for."""
    return [one for one in CASES if one.model in options.models and one.zero in options.zero]


def torch_cases(name: str, folder: Path, device: str) -> Iterator[dict[str, Any]]:
    """Yield the reference, and trainer ``torch`` in float32 and bfloat16."""
    import torch
    from cluster_kit import CONFIG, STEPS, Measured, load, ragged_rows, reference
    from rsft_kit import LendingEngine

    from whale_rsft.torch_trainer import TorchTrainer

    expected = reference(folder)
    plain = Case(name, 0, "token-mean")
    yield case(name, "reference", "float32", expected, expected, plain)
    for dtype in (torch.float32, torch.bfloat16):
        module = load(folder, dtype).to(device).eval().requires_grad_(False)
        engine = cast(Any, LendingEngine(module))
        done = asyncio.run(TorchTrainer(CONFIG).train([ragged_rows()] * STEPS, engine)).updates
        found = Measured(
            tuple(each.loss.nll / each.divisor for each in done),
            tuple(each.grad_norm for each in done),
        )
        yield case(name, "torch", str(dtype).removeprefix("torch."), found, expected, plain)


def openrlhf_steps(ranks: int, folder: Path, options: argparse.Namespace) -> dict[Case, Any]:
    """Return what ``ranks`` actors report of every case, each in a process of its own.

    Without Ray, which only starts the processes, gives each its GPU and carries the calls.
    """
    from cluster_kit import Measured

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, "--folder", str(folder), "--port", str(port)]
    command += ["--zero", *map(str, options.zero), "--models", *options.models]
    command += ["--ranks", str(ranks), "--rank"]
    started = []
    for rank in range(ranks):
        place = {"CUDA_VISIBLE_DEVICES": str(rank), "LOCAL_RANK": "0"}
        environment = {**os.environ, **(place if options.device == "cuda" else {})}
        started.append(subprocess.Popen([*command, str(rank)], env=environment))
    failed = [rank for rank, each in enumerate(started) if each.wait()]
    if failed:
        raise SystemExit(f"ranks {failed} of {ranks} failed")
    reports = [json.loads((folder / f"{ranks}-{rank}.json").read_text()) for rank in range(ranks)]
    return {
        one: Measured(
            tuple(sum(step[0] for step in steps) for steps in zip(*every, strict=True)),
            tuple(step[1] for step in every[0]),
        )
        for one, *every in zip(chosen(options), *reports, strict=True)
    }


def work(rank: int, options: argparse.Namespace) -> None:
    """Be one rank: make all cases' steps and write down this rank's part of the loss."""
    import cpu_shims

    cpu_shims.install()
    from cluster_kit import CONFIG, LOCAL_RANKS, STEPS, ragged_rows

    from whale_rsft.losses import row_weights
    from whale_rsft.openrlhf.actor import RSFTActor
    from whale_rsft.openrlhf.batches import shares
    from whale_rsft.openrlhf.options import Options

    ranks, folder = options.ranks[0], options.folder
    actor = RSFTActor(ranks, rank, "127.0.0.1", options.port)
    rows, reports = ragged_rows(), []
    for one in chosen(options):
        weights, divisor = row_weights(rows, one.loss, LOCAL_RANKS)
        parts = shares(rows, weights, divisor, ranks, CONFIG.micro_tokens)
        assert len(parts[0].micro_batches) >= 3
        settings = Options.of(CONFIG, one.zero, seed=0)
        actor.init_model_from_pretrained(settings, folder / one.model)
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


def device_name() -> str:
    """Return the GPU's name."""
    import torch

    return torch.cuda.get_device_name()


def arguments() -> argparse.Namespace:
    """Read the command line; other settings than the whole's must not be written as evidence."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--zero", nargs="+", type=int, default=[1, 2, 3], choices=(1, 2, 3))
    parser.add_argument("--ranks", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--output", type=Path, default=RESULT, metavar="FILE")
    for name, kind in (("--rank", int), ("--port", int), ("--folder", Path)):
        parser.add_argument(name, type=kind, help="for the processes that this starts")
    options = parser.parse_args()
    whole = (list(MODELS), [1, 2, 3], [1, 2], "cpu")
    asked = (options.models, options.zero, options.ranks, options.device)
    if options.rank is None and options.output == RESULT and asked != whole:
        parser.error("other settings than the whole measurement's: give --output FILE")
    return options


if __name__ == "__main__":
    given = arguments()
    if given.rank is None:
        sys.exit(main(given))
    work(given.rank, given)

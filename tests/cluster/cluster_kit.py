"""Tiny models, ragged rows, a reference, and Ray on a CPU with the shims in its workers."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cpu_shims
import numpy as np
import torch
from attrs import frozen

from whale_core.ray_connection import ENVIRONMENT
from whale_core.records import Floats, Ids, Row
from whale_rsft.config import Config

HERE = Path(__file__).parent
STEPS = 3
MICRO_TOKENS = 48
LOCAL_RANKS = 2  # of the loss rank-local
CONFIG = Config(lr=1e-3, micro_tokens=MICRO_TOKENS, clip=1.0)
MODELS = ("llama", "qwen3.5")


def build_model(name: str, folder: Path) -> Path:
    """Write a tiny model in bfloat16, its tokenizer beside it: ``llama`` (2 layers) or ``qwen3.5``
    (3 layers with linear attention, one with full; embeddings tied)."""
    from transformers import LlamaForCausalLM, Qwen3_5ForCausalLM, Qwen3_5TextConfig

    from whale_transformers import tiny

    tiny.build(folder)
    if name == "llama":
        module: Any = LlamaForCausalLM.from_pretrained(folder)
    else:
        (folder / "model.safetensors").unlink()
        config = Qwen3_5TextConfig(
            vocab_size=259,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=4,
            layer_types=["linear_attention"] * 3 + ["full_attention"],
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=32,
            linear_key_head_dim=64,
            linear_value_head_dim=64,
            linear_num_key_heads=1,
            linear_num_value_heads=2,
            max_position_embeddings=2048,
            tie_word_embeddings=True,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=0,
        )
        with torch.random.fork_rng():
            torch.manual_seed(7)
            module = Qwen3_5ForCausalLM(config)
    module.to(torch.bfloat16).save_pretrained(folder)
    return folder


def load(folder: Path, dtype: torch.dtype) -> Any:
    """Return the folder's model."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa")


def ragged_rows(seed: int = 0, count: int = 11) -> list[Row]:
    """Return rows in which turns of sampled tokens take turns with others, the first half long."""
    draw = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        length = int(draw.integers(30, 60) if i < count // 2 else draw.integers(6, 14))
        mask = np.zeros(length, np.uint8)
        at = int(draw.integers(2, 6))
        while at < length:
            turn = int(draw.integers(1, 6))
            mask[at : at + turn] = 1
            at += turn + int(draw.integers(1, 5))
        ids = draw.integers(3, 259, length).astype(np.int32)
        rows.append(Row(ids, mask, np.full(length, -5.0, np.float32), i - (i % 4 == 3)))
    return rows


@frozen
class Measured:
    """Loss and gradient norm before clipping of each step."""

    loss: tuple[float, ...]
    grad_norm: tuple[float, ...]


def reference(folder: Path, loss: str = "token-mean") -> Measured:
    """Return what autograd, clip_grad_norm_ and torch's AdamW give in float32, row by row."""
    module = load(folder, torch.float32).train()
    optimizer = torch.optim.AdamW(
        module.parameters(), lr=CONFIG.lr, betas=(CONFIG.beta1, CONFIG.beta2), weight_decay=0.0
    )
    rows = ragged_rows()
    losses, norms = [], []
    for _ in range(STEPS):
        total = 0.0
        for row, weight in zip(rows, _weights(rows, loss), strict=True):
            ids = torch.from_numpy(row.input_ids).long()[None]
            logp = torch.log_softmax(module(input_ids=ids).logits[0, :-1], -1)
            picked = logp.gather(-1, ids[0, 1:, None])[:, 0]
            value = -(picked * torch.from_numpy(row.loss_mask[1:])).sum() * weight
            value.backward()
            total += value.item()
        norms.append(float(torch.nn.utils.clip_grad_norm_(module.parameters(), CONFIG.clip)))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return Measured(tuple(losses), tuple(norms))


def _weights(rows: Sequence[Row], loss: str) -> list[float]:
    """Return what each row's summed negative log-likelihood is multiplied with, by definition."""
    tokens = [int(row.loss_mask.sum()) for row in rows]
    if loss == "token-mean":
        return [1 / sum(tokens)] * len(rows)
    names = sorted({row.trajectory for row in rows})
    per_part = 1 if loss == "seq-mean-token-mean" else -(-len(names) // LOCAL_RANKS)
    part = {name: i // per_part for i, name in enumerate(names)}
    parts = len(names) if loss == "seq-mean-token-mean" else LOCAL_RANKS
    own = [
        sum(t for row, t in zip(rows, tokens, strict=True) if part[row.trajectory] == p)
        for p in range(parts)
    ]
    return [1 / own[part[row.trajectory]] / parts for row in rows]


class FolderEngine:
    """The part of an engine that a trainer with a module of its own meets: it serves a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loaded: list[Path] = []

    async def weights_id(self) -> str:
        """Return a hash of the served weights."""
        return served_hash(self.folder)

    async def save(self, path: Path) -> str:
        """Copy the folder."""
        shutil.copytree(self.folder, path)
        return served_hash(path)

    async def load(self, path: Path | None) -> str:
        """Serve another folder: a copy of it, as a server would read it."""
        assert path is not None
        copy = self.folder.parent / f"served-{len(self.loaded)}"
        shutil.copytree(path, copy)
        self.loaded.append(path)
        self.folder = copy
        return served_hash(copy)

    async def logprobs(self, token_ids: Ids) -> Floats:
        """Score tokens with the served weights."""
        ids = torch.from_numpy(token_ids).long()[None]
        with torch.no_grad():
            logits = load(self.folder, torch.bfloat16)(input_ids=ids).logits[0, :-1].float()
        logp = torch.log_softmax(logits, -1)
        values: Floats = logp.gather(-1, ids[0, 1:, None])[:, 0].numpy()
        return values


def served_hash(folder: Path) -> str:
    """Return a hash of the weights in a folder."""
    from safetensors.torch import load_file

    whole = hashlib.sha256()
    for name, tensor in sorted(load_file(folder / "model.safetensors").items()):
        whole.update(name.encode() + tensor.view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()[:16]


@contextmanager
def ray_on_cpu() -> Iterator[None]:
    """Connect to a Ray of our own whose workers install the shims."""
    import ray

    cpu_shims.install()
    os.environ.update(ENVIRONMENT)
    paths = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    ray.init(
        address="local",
        num_cpus=6,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={
            "worker_process_setup_hook": "cpu_shims.install",
            "env_vars": {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        },
    )
    try:
        yield
    finally:
        ray.shutdown()

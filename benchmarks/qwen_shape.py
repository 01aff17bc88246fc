"""Models of random weights in the shape of Qwen3.5, for the GPU measurements (``gpu.sh``).

``2b`` has about the shape of Qwen3.5-2B's text part: 18 layers with linear attention and 6 with
full attention, a vocabulary of 248,320, embeddings tied, 1.9 billion parameters. ``tiny`` has four
layers and the vocabulary of bytes, for a dry run on a CPU. What they sample is noise; memory and
speed are those of the shape, but for what depends on the text (how long replies are).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

SHAPES: dict[str, dict[str, Any]] = {
    "2b": {
        "vocab_size": 248_320,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 24,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 16,
    },
    "tiny": {
        "vocab_size": 259,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "linear_key_head_dim": 64,
        "linear_value_head_dim": 64,
        "linear_num_key_heads": 1,
        "linear_num_value_heads": 2,
    },
}


def build(shape: str, device: str, seed: int = 0) -> Any:
    """Return a module of ``shape`` in bfloat16, frozen as an engine keeps it."""
    from transformers import AutoModelForCausalLM, Qwen3_5TextConfig

    config = Qwen3_5TextConfig(
        **SHAPES[shape],
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(seed)
        module = AutoModelForCausalLM.from_config(
            config, dtype=torch.bfloat16, attn_implementation="sdpa"
        )
    return module.to(device).eval().requires_grad_(False)


def write(shape: str, folder: Path, device: str, seed: int = 0) -> Path:
    """Write such a model as a Hugging Face folder, with a tokenizer of its whole vocabulary."""
    from whale_transformers import tiny

    tiny.build(folder)
    (folder / "model.safetensors").unlink()
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    known = len(vocabulary)
    vocabulary.update({f"<{i}>": i for i in range(known, SHAPES[shape]["vocab_size"])})
    file.write_text(json.dumps(tokenizer))
    build(shape, device, seed).save_pretrained(folder)
    return folder

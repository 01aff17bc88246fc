"""Memory and time of a run on GPUs that are not here: arithmetic with stated assumptions.

What is known of a model is its ``config.json``, or a table for the models that plugin sets name.
Nothing here is measured; ``Footprint.assumed`` says on what the figures stand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import asdict, field, frozen

from whale_core.abilities import Serving, Training
from whale_core.records import Json

GIB = 1 << 30
HALF, FULL = 2, 4  # bytes of a number: bfloat16, float32
ADAM = 3 * FULL  # a float32 copy and two moments, for each trained parameter
BANDWIDTH = 2.0e12  # bytes a second of one GPU (A100 80 GB: 2.0, H100: 3.4)
COMPUTE = 312e12  # bfloat16 operations a second (A100: 312, H100: 990)
REACHED = 0.4  # of both
LOSS_BYTES = 2 * FULL + HALF  # of each logit: itself, in float32, its gradient


@frozen
class Model:
    """Sizes of a language model. ``attention`` counts the layers that keep keys and values."""

    parameters: float
    attention: int
    kv_heads: int
    head_dim: int
    vocabulary: int

    @property
    def kv_bytes(self) -> int:
        """Bytes of keys and values for one token."""
        return 2 * self.attention * self.kv_heads * self.head_dim * HALF


# Parameters are those of the text model; Qwen3.5's layers with linear attention keep a state of
# fixed size, which is left out. Key and value heads of the 2B are taken to be half the 4B's.
KNOWN = {
    "Qwen/Qwen3.5-2B": Model(2.0e9, 6, 2, 256, 248_320),
    "Qwen/Qwen3.5-4B": Model(4.0e9, 8, 4, 256, 248_320),
    "Qwen/Qwen3-1.7B": Model(1.72e9, 28, 8, 128, 151_936),
    "Qwen/Qwen3-4B": Model(4.02e9, 36, 8, 128, 151_936),
}


@frozen
class Footprint:
    """GiB of each GPU by what takes them, and hours; ``assumed`` are lines to print."""

    serving: Mapping[str, float] = field(factory=dict)
    training: Mapping[str, float] = field(factory=dict)
    sequences: int = 0
    sampled_tokens: int = 0
    generation_hours: float = 0.0
    training_hours: float = 0.0
    assumed: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """Return it as plain JSON."""
        return asdict(self)


def known_model(name: str) -> Model | None:
    """Return what is known of a model: its folder's ``config.json``, or the table; else None."""
    file = Path(name) / "config.json"
    if file.is_file():
        try:
            return _from_config(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError):
            return None
    return KNOWN.get(name)


def _from_config(config: Mapping[str, Any]) -> Model:
    text = config.get("text_config", config)
    hidden, layers = text["hidden_size"], text["num_hidden_layers"]
    heads = text["num_attention_heads"]
    kv_heads = text.get("num_key_value_heads") or heads
    head_dim = text.get("head_dim") or hidden // heads
    kinds = text.get("layer_types")
    attention = sum(kind != "linear_attention" for kind in kinds) if kinds else layers
    matrices = (
        hidden * head_dim * (2 * heads + 2 * kv_heads) + 3 * hidden * text["intermediate_size"]
    )
    tied = text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))
    embedding = text["vocab_size"] * hidden * (1 if tied else 2)
    return Model(layers * matrices + embedding, attention, kv_heads, head_dim, text["vocab_size"])


def token_limit(domain: object, config: object) -> int | None:
    """Return how many tokens an episode may sample: a setting, the domain's limit; else None."""
    asked = getattr(config, "sampled_tokens", None)
    limits = getattr(domain, "limits", None)
    own = getattr(limits, "sampled_tokens", None)
    return next((each for each in (asked, own) if isinstance(each, int)), None)


def serving_gib(model: Model, how: Serving) -> tuple[dict[str, float], int]:
    """Return GiB on each GPU by part, and how many sequences of full length a replica holds."""
    weights = model.parameters * HALF / how.gpus_each
    each = model.kv_bytes * how.context / how.gpus_each
    if how.sequences:
        count = how.sequences
    else:
        room = 0.9 * how.share * 80e9 - weights  # a tenth for activations and graphs
        count = max(0, int(room // each))
    parts = {"weights": weights / GIB, "keys and values": count * each / GIB}
    return parts, count


def training_gib(model: Model, how: Training) -> dict[str, float]:
    """Return GiB on each rank by part. Activations are those of gradient checkpointing, small
    beside the logits with which the loss begins."""
    spread = [how.ranks if how.zero >= stage else 1 for stage in (1, 2, 3)]
    # LoRA of rank r trains r (m + n) of the m n parameters of a matrix: with m, n near 3,000 to
    # 6,000, as at 1.5 to 4 billion parameters, about r / 2000 of them
    trained = model.parameters * (how.lora_rank / 2000 if how.lora_rank else 1)
    kept = model.parameters if not how.lora_rank else model.parameters + trained
    positions = min(how.tokens, how.logits or how.tokens)
    return {
        "weights": kept * HALF / spread[2] / GIB,
        "gradients": trained * HALF / spread[1] / GIB,
        "optimizer": trained * ADAM / spread[0] / GIB,
        "logits": positions * model.vocabulary * LOSS_BYTES / GIB,
    }


def footprint(
    model: Model,
    serving: Serving,
    training: Training | None,
    sampled_tokens: float,
    trained_tokens: float,
) -> Footprint:
    """Return what a run takes that samples and trains so many tokens in all.

    Generation reads the weights, and on average half of each sequence's keys and values, once for
    each token of all sequences; training makes 8 operations a parameter and token (checkpointing).
    """
    served, sequences = serving_gib(model, serving)
    busy = max(1, sequences)
    read = model.parameters * HALF + busy * model.kv_bytes * serving.context / 2
    per_step = max(
        read / (BANDWIDTH * serving.gpus_each),
        busy * 2 * model.parameters / (COMPUTE * serving.gpus_each),
    )
    speed = serving.replicas * busy / per_step * REACHED
    trained: dict[str, float] = {}
    training_seconds = 0.0
    if training is not None:
        trained = training_gib(model, training)
        operations = 8 * model.parameters * trained_tokens
        training_seconds = operations / (training.ranks * COMPUTE * REACHED)
    return Footprint(
        serving=served,
        training=trained,
        sequences=sequences,
        sampled_tokens=round(sampled_tokens),
        generation_hours=sampled_tokens / speed / 3600,
        training_hours=training_seconds / 3600,
        assumed=(
            f"{model.parameters / 1e9:.2f} billion parameters, {model.kv_bytes:,} bytes of keys "
            f"and values a token, a vocabulary of {model.vocabulary:,}",
            f"GPUs of 80 GB, {BANDWIDTH / 1e12:g} TB/s and {COMPUTE / 1e12:g} TFLOP/s, "
            f"{REACHED:.0%} of both reached; replicas always full",
            "every rollout samples its whole budget, and every rollout is accepted: the most that "
            "there can be",
            "nothing of this is measured",
        ),
    )

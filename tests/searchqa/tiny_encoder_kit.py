"""A real encoder of a few thousand random weights, as a folder that ``transformers`` loads."""

from __future__ import annotations

from pathlib import Path


def write_encoder(folder: Path, hidden: int = 16, seed: int = 0) -> Path:
    """Write a BERT with ``hidden`` dimensions whose weights are a function of ``seed``."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    letters = {f"{char}": row for row, char in enumerate("abcdefghijklmnopqrstuvwxyz0123456789")}
    vocabulary = {"[PAD]": 0, "[UNK]": 1} | {char: row + 2 for char, row in letters.items()}
    vocabulary |= {f"##{char}": row + 2 + len(letters) for char, row in letters.items()}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=hidden,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=2 * hidden,
        max_position_embeddings=64,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        BertModel(config).save_pretrained(folder)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]", model_max_length=64
    )
    fast.save_pretrained(folder)
    return folder

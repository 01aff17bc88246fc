"""The tokenizer's four primitives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale_core.errors import InputError

TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <|im_end|>"}]


@pytest.fixture
def tokenizer(engines):
    return engines(dtype="float32").tokenizer


def test_the_template_ends_with_the_generation_prompt(tokenizer):
    assert tokenizer.template(TALK) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nHi <|im_end|><|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert not tokenizer.supports_tools
    with pytest.raises(InputError, match="tools="):
        tokenizer.template(TALK, tools=[{"name": "f"}])


def test_special_strings_are_tokens_only_where_trusted(tokenizer):
    assert tokenizer.encode("<|im_start|>a<|im_end|>", special=True)[::2] == [1, 2]
    split = tokenizer.encode("<|im_start|>a<|im_end|>", special=False)
    assert not {0, 1, 2} & set(split)
    assert tokenizer.decode(split) == "<|im_start|>a<|im_end|>"
    assert tokenizer.decode([1, *split, 2]) == "<|im_start|>a<|im_end|>"


def test_every_ascii_character_is_one_token(tokenizer):
    for code in range(128):
        assert len(tokenizer.encode(chr(code), special=True)) == 1


@given(text=st.text(max_size=30))
def test_decoding_undoes_encoding(engines, text):
    tokenizer = engines(dtype="float32").tokenizer
    assert tokenizer.decode(tokenizer.encode(text, special=False)) == text


@pytest.mark.slow
def test_the_bundled_models_template_and_digits(smollm2):
    tokenizer = smollm2.tokenizer
    text = tokenizer.template([{"role": "user", "content": "Hi"}])
    assert text.startswith("<|im_start|>system\nYou are a helpful AI assistant named SmolLM")
    assert text.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert tokenizer.end_tokens == {2}
    assert tokenizer.encode("<|im_end|>", special=True) == [2]
    assert len(tokenizer.encode("12345", special=False)) == 5
    assert tokenizer.decode(tokenizer.encode("Mate in 2: Qh7#", special=False)) == "Mate in 2: Qh7#"

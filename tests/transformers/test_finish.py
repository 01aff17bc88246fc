"""How a generation ends: end tokens, stop strings, length; and what its text is."""

from __future__ import annotations

import numpy as np
import pytest
from engine_kit import ask, generate, prompt
from hypothesis import given
from hypothesis import strategies as st

from whale_core.errors import EngineError
from whale_core.stop_strings import StopFinder


def test_length_and_exact_text(engine):
    generation = generate(engine, [ask(prompt(1, 20), 12, stream=3)])[0]
    assert generation.finish_reason == "length"
    assert generation.token_ids.dtype == np.int32 and generation.logprobs.dtype == np.float32
    assert len(generation.token_ids) == len(generation.logprobs) == 12
    assert generation.text == engine.tokenizer.decode(list(generation.token_ids))


def test_a_shorter_request_samples_a_prefix(engine):
    long, short = generate(engine, [ask(prompt(1, 20), n, stream=3) for n in (12, 5)])
    assert list(long.token_ids[:5]) == list(short.token_ids)


def test_an_end_token_is_kept_but_not_in_the_text(engine):
    free = generate(engine, [ask(prompt(2, 30), 12, stream=5)])[0]
    ends = engine.tokenizer.end_tokens
    assert ends == {2}
    end = int(free.token_ids[6])
    first = list(free.token_ids).index(end)
    engine.tokenizer.end_tokens = frozenset({end})
    try:
        ended = generate(engine, [ask(prompt(2, 30), 12, stream=5)])[0]
    finally:
        engine.tokenizer.end_tokens = ends
    assert ended.finish_reason == "end"
    assert list(ended.token_ids) == list(free.token_ids[: first + 1])
    assert ended.text == engine.tokenizer.decode(list(ended.token_ids[:-1]))


def test_a_stop_string_across_tokens_ends_with_its_last_token(engine):
    def text_of(ids):
        return engine.tokenizer.decode(list(ids))

    free = generate(engine, [ask(prompt(4, 30), 40, stream=8)])[0]
    ids = list(free.token_ids)
    stop = next(
        text_of(ids[i : i + 3])
        for i in range(5, 35)
        if text_of(ids[i : i + 3]).isascii() and len(text_of(ids[i : i + 3])) == 3
    )
    shortest = next(n for n in range(1, 41) if stop in text_of(ids[:n]))
    stopped = generate(engine, [ask(prompt(4, 30), 40, ("never there", stop), stream=8)])[0]
    assert stopped.finish_reason == "stop"
    assert list(stopped.token_ids) == ids[:shortest]
    assert stopped.text == text_of(ids[:shortest]) and stop in stopped.text


def test_max_tokens_is_capped_by_the_context(engines):
    engine = engines(dtype="float32", max_context=100)
    generation = generate(engine, [ask(prompt(1, 90), 50)])[0]
    assert len(generation.token_ids) == 10 and generation.finish_reason == "length"
    with pytest.raises(EngineError, match=r"100 tokens.*100 tokens"):
        generate(engine, [ask(prompt(1, 100), 50)])
    with pytest.raises(EngineError, match="empty prompt"):
        generate(engine, [ask([], 5)])


def test_nothing_to_do(engine):
    assert generate(engine, []) == []
    generation = generate(engine, [ask([5], 0)])[0]
    assert len(generation.token_ids) == 0 and generation.finish_reason == "length"


# --- the stop finder ------------------------------------------------------------------------------

ALPHABET = "ab\n \u00e9\u4e2d\U0001f600"


@given(
    text=st.text(alphabet=ALPHABET, max_size=14),
    noise=st.lists(st.integers(0, 258), max_size=4),
    stop=st.lists(st.text(alphabet=ALPHABET, min_size=1, max_size=4), max_size=3),
)
def test_the_finder_agrees_with_decoding_everything(engines, text, noise, stop):
    tokenizer = engines(dtype="float32").tokenizer
    ids = tokenizer.encode(text, special=False) + noise
    finder = StopFinder(stop, tokenizer.decode)
    for end in range(1, len(ids) + 1):
        found = finder.push(ids[end - 1])
        assert found == any(s in tokenizer.decode(ids[:end]) for s in stop)
        if found:
            break


def test_the_finder_decodes_only_a_tail(engines):
    tokenizer = engines(dtype="float32").tokenizer
    lengths = []

    def decode(ids):
        lengths.append(len(ids))
        return tokenizer.decode(ids)

    finder = StopFinder(("never",), decode)
    for token in tokenizer.encode("a long text, " * 40, special=False):
        assert not finder.push(token)
    assert max(lengths) <= 3

"""The point of the engine: a request's samples are bit-equal alone and in any company."""

from __future__ import annotations

import pytest
from engine_kit import ask, generate, prompt
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whale_core.records import GenerationRequest, Sampling
from whale_transformers.check import identical

samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.7, 1.0]),
    top_k=st.sampled_from([0, 1, 20, 300]),
    top_p=st.sampled_from([0.9, 1.0]),
)
requests = st.builds(
    lambda name, length, prefix, tokens, sampling, stream: ask(
        prompt(name, length, prefix), tokens, ("a", "\u00e9"), sampling, stream
    ),
    name=st.integers(0, 3),
    length=st.sampled_from([1, 2, 40, 63, 64, 65, 128, 150, 200]),
    prefix=st.sampled_from([0, 64, 100]),
    tokens=st.sampled_from([1, 2, 9, 33, 40]),
    sampling=samplings,
    stream=st.integers(0, 1000),
)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_samples_do_not_depend_on_company_order_occupancy_or_cache(engines, dtype, data):
    batch: list[GenerationRequest] = data.draw(st.lists(requests, min_size=2, max_size=12))
    order = data.draw(st.permutations(range(len(batch))))
    lonely = data.draw(st.integers(0, len(batch) - 1))
    roomy, tight = engines(dtype=dtype), engines(dtype=dtype, slots=3)

    cold = generate(roomy, batch, cold=True)
    warm = generate(roomy, [batch[i] for i in order])
    crowded = generate(tight, batch)
    alone = generate(roomy, [batch[lonely]], cold=True)[0]

    assert identical(alone, cold[lonely])
    for place, index in enumerate(order):
        assert identical(warm[place], cold[index])
    for one, other in zip(crowded, cold, strict=True):
        assert identical(one, other)


def test_rows_of_several_tiles(engine):
    batch = [ask(prompt(i % 9, 70 + i % 9, 64), 3 + i % 5, stream=i) for i in range(150)]
    together = generate(engine, batch, cold=True)
    backwards = generate(engine, batch[::-1], cold=True)[::-1]
    assert all(map(identical, together, backwards))
    for index in (0, 63, 64, 149):
        assert identical(generate(engine, [batch[index]])[0], together[index])


def test_more_prompts_than_the_cache_has_blocks_for(engine):
    cache = engine._decoder._cache
    batch = [ask(prompt(i, 200), 5, stream=i) for i in range(30)]
    plenty = generate(engine, batch, cold=True)
    spare = [cache._free.pop(0) for _ in range(len(cache._free) - 9)]
    few = generate(engine, batch)
    again = generate(engine, batch[::-1])[::-1]
    cache._free.extend(spare)
    assert all(map(identical, plenty, few))
    assert all(map(identical, plenty, again))


def test_draws_of_one_prompt_differ(engine):
    texts = {g.text for g in generate(engine, [ask(prompt(0, 50), 8, stream=i) for i in range(8)])}
    assert len(texts) > 4


@pytest.mark.slow
def test_the_bundled_model(smollm2):
    vocabulary = 49152
    batch = [
        ask(prompt(i // 4, 150 + 7 * (i // 4), 128, vocabulary), 6, stream=i) for i in range(20)
    ]
    together = generate(smollm2, batch, cold=True)
    backwards = generate(smollm2, batch[::-1])[::-1]
    assert all(map(identical, together, backwards))
    for index in (0, 19):
        assert identical(generate(smollm2, [batch[index]], cold=True)[0], together[index])


def test_the_smallest_products_are_computed_like_the_others(engines):
    """One sequence alone makes products small enough for torch to choose another kernel."""
    engine = engines(dtype="bfloat16")
    sampling = Sampling(temperature=0.7, top_k=0, top_p=0.9)
    mine = ask(prompt(0, 40, 0), 33, (), sampling, 0)
    other = ask(prompt(0, 1, 0), 33, (), sampling, 0)
    alone = generate(engine, [mine], cold=True)[0]
    assert identical(generate(engine, [other, mine], cold=True)[1], alone)

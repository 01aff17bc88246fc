"""The engine with a real vLLM server on a tiny model, beside the embedded engine.

Runs in the cluster lane (`make cluster-slow`); elsewhere it is skipped.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from vllm_server_kit import write_changed

from whale_core.errors import EngineError
from whale_core.keys import generator
from whale_core.plugins import Setup
from whale_core.records import Generation, GenerationRequest, Sampling
from whale_core.testing.contracts import check_engine
from whale_transformers.config import Config as EmbeddedConfig
from whale_transformers.engine import TransformersEngine
from whale_vllm.config import Config
from whale_vllm.engine import VLLMEngine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        getattr(importlib.util.find_spec("vllm"), "origin", None) is None,
        reason="vLLM is not installed here: make cluster-venv",
    ),
]

# float32 on a CPU, other kernels and other batches: the mean absolute difference, and the largest.
MEAN, LARGEST = 1e-4, 2e-3
TIE = 1e-3  # two tokens whose log-probabilities lie so close may change places
ARGUMENTS = (
    "--enforce-eager",
    "--kv-cache-memory-bytes",
    "200000000",
    "--max-num-seqs",
    "64",
)


@pytest.fixture(scope="module")
def config(folder: Path) -> Config:
    return Config(model=str(folder), max_context=1024, gpu_memory=0.1, arguments=ARGUMENTS)


@pytest.fixture(scope="module")
def engine(config: Config) -> Iterator[VLLMEngine]:
    made = VLLMEngine(config, Setup(0))
    asyncio.run(made.probe(Sampling()))
    yield made
    asyncio.run(made.close())


@pytest.fixture(scope="module")
def same_servers(engine: VLLMEngine, config: Config) -> Config:
    """The settings of an engine that finds the running server."""
    assert engine._fleet is not None
    return Config(model=config.model, max_context=1023, urls=engine._fleet.pool.names)


@pytest.fixture(scope="module")
def embedded(folder: Path) -> Iterator[TransformersEngine]:
    settings = EmbeddedConfig(model=str(folder), dtype="float32", threads=1)
    made = TransformersEngine(settings, Setup(0))
    yield made
    asyncio.run(made.close())


def requests(sampling: Sampling, count: int = 24, tokens: int = 16) -> list[GenerationRequest]:
    made = []
    for index in range(count):
        length = 150 + 7 * (index // 4)  # more than a block of the prefix cache
        ids = generator("real prompt", index // 4).integers(3, 259, length).astype(np.int32)
        key = generator("real key", index).bytes(16)
        made.append(GenerationRequest(ids, tokens, (), sampling, key))
    return made


def rows(asked: list[GenerationRequest], made: list[Generation]) -> list[np.ndarray]:
    return [np.concatenate([r.prompt_ids, g.token_ids]) for r, g in zip(asked, made, strict=True)]


def forward(embedded: TransformersEngine, row: np.ndarray) -> np.ndarray:
    """Return the plain model's log-probability of each token but the first."""

    def work(module: torch.nn.Module) -> np.ndarray:
        ids = torch.from_numpy(row.astype(np.int64))[None]
        with torch.no_grad():
            scores = torch.log_softmax(module(ids).logits[0, :-1].float(), dim=-1)
        return scores.gather(1, ids[0, 1:, None])[:, 0].numpy()

    return asyncio.run(embedded.borrow(work))


def test_it_keeps_the_contract(same_servers: Config) -> None:
    check_engine(VLLMEngine, same_servers)


def test_the_weights_id_is_the_embedded_engines(
    engine: VLLMEngine, embedded: TransformersEngine
) -> None:
    assert asyncio.run(engine.weights_id()) == asyncio.run(embedded.weights_id())


def test_greedy_tokens_are_the_embedded_engines(
    engine: VLLMEngine, embedded: TransformersEngine
) -> None:
    asked = requests(Sampling(temperature=0.0))
    ours = asyncio.run(engine.generate(asked))
    theirs = asyncio.run(embedded.generate(asked))
    ties = 0
    for request, one, two in zip(asked, ours, theirs, strict=True):
        assert isinstance(one, Generation)
        differ = np.flatnonzero(one.token_ids[:1_000] != two.token_ids[: len(one.token_ids)])
        if len(differ) == 0:
            assert one.token_ids.tolist() == two.token_ids.tolist()
            continue
        place = int(differ[0])  # from there on they go on from other tokens
        prefix = np.concatenate([request.prompt_ids, one.token_ids[:place]])
        pair = [forward(embedded, np.append(prefix, g.token_ids[place]))[-1] for g in (one, two)]
        assert abs(pair[0] - pair[1]) < TIE
        ties += 1
    assert ties <= len(asked) // 10


def test_sampled_log_probabilities_are_a_forward_passes(
    engine: VLLMEngine, embedded: TransformersEngine
) -> None:
    asked = requests(Sampling())
    made = asyncio.run(engine.generate(asked))
    told = np.concatenate([each.logprobs for each in made])
    plain = np.concatenate(
        [
            forward(embedded, row)[-len(each.token_ids) :]
            for row, each in zip(rows(asked, made), made, strict=True)
        ]
    )
    assert np.abs(told - plain).mean() < MEAN
    assert np.abs(told - plain).max() < LARGEST
    assert max(each.cached_tokens for each in made) > 0  # the rollouts of a prompt share its keys


def test_given_tokens_are_scored_as_by_a_forward_pass(
    engine: VLLMEngine, embedded: TransformersEngine
) -> None:
    for length in (2, 77, engine.max_context):
        row = generator("row", length).integers(3, 259, length).astype(np.int32)
        scores = asyncio.run(engine.logprobs(row))
        assert np.abs(scores - forward(embedded, row)).mean() < MEAN


def test_what_is_sampled_follows_from_the_request(engine: VLLMEngine) -> None:
    asked = requests(Sampling())
    first = asyncio.run(engine.generate(asked))
    again = asyncio.run(engine.generate(asked[::-1]))[::-1]
    assert [a.token_ids.tolist() for a in first] == [b.token_ids.tolist() for b in again]
    assert len({tuple(each.token_ids.tolist()) for each in first[:4]}) > 1


def test_new_weights_are_served_and_the_old_ones_again(
    engine: VLLMEngine, embedded: TransformersEngine, folder: Path, tmp_path: Path
) -> None:
    asked = requests(Sampling())
    before = asyncio.run(engine.generate(asked))
    changed = write_changed(folder, tmp_path / "changed", "a")
    weights_id = asyncio.run(engine.load(changed))
    assert weights_id == asyncio.run(embedded.load(changed))
    after = asyncio.run(engine.generate(asked))
    assert {each.weights_id for each in after} == {weights_id}
    for row in rows(asked, after)[:4]:
        assert np.abs(asyncio.run(engine.logprobs(row)) - forward(embedded, row)).mean() < MEAN
    assert asyncio.run(engine.save(tmp_path / "saved")) == weights_id
    assert asyncio.run(engine.load(None)) == asyncio.run(embedded.load(None))
    restored = asyncio.run(engine.generate(asked))
    assert [a.token_ids.tolist() for a in restored] == [b.token_ids.tolist() for b in before]


def test_weights_that_somebody_else_loads_refuse_the_batch(
    engine: VLLMEngine, same_servers: Config, folder: Path, tmp_path: Path
) -> None:
    other = VLLMEngine(same_servers, Setup(0))
    asyncio.run(other.load(write_changed(folder, tmp_path / "changed", "b")))
    asyncio.run(other.close())
    with pytest.raises(EngineError, match="serves weights"):
        asyncio.run(engine.generate(requests(Sampling(), count=2)))
    asyncio.run(engine.load(None))

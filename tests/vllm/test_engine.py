"""The engine against servers that answer as they should."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from vllm_engine_kit import ask, generate
from vllm_server_kit import Server, write_changed

from whale_core.abilities import GivesLogprobs
from whale_core.checkpoint import checkpoint_hash
from whale_core.errors import EngineError, InputError
from whale_core.keys import generator
from whale_core.records import Generation, Sampling
from whale_core.run.services import probe_endpoint
from whale_core.testing.contracts import check_engine
from whale_vllm.config import Config
from whale_vllm.engine import VLLMEngine


def test_it_keeps_the_contract(folder: Path, servers: list[Server]) -> None:
    urls = tuple(server.url for server in servers)
    check_engine(VLLMEngine, Config(model=str(folder), urls=urls, max_context=256))


def test_what_the_settings_cannot_mean_is_refused(folder: Path) -> None:
    for wrong, said in [
        ({"urls": ("localhost:8000",)}, "http://host:port"),
        ({"urls": ("http://a:1/v1",)}, "without /v1"),
        ({"urls": ("http://a:1", "http://a:1")}, "twice"),
        ({"arguments": ("--host=0.0.0.0",)}, "--host"),
        ({"arguments": ("--max_model_len", "9")}, "--max-model-len"),
        ({"arguments": ("-tp", "2")}, "-tp"),
        ({"arguments": ("--config", "mine.yaml")}, "--config"),
    ]:
        with pytest.raises(ValueError, match=said):
            Config(model=str(folder), **wrong)  # type: ignore[arg-type]


def test_the_core_probes_it_before_a_run_and_sees_that_it_scores(engines: Any) -> None:
    engine = engines()
    assert engine.facts()["vllm"] is None
    asyncio.run(probe_endpoint(engine, Sampling()))
    assert engine.facts()["vllm"] == "0.32.0+toy"
    assert isinstance(engine, GivesLogprobs)


def test_requests_are_sent_alone_with_seeds_of_their_own(
    engines: Any, servers: list[Server]
) -> None:
    made = generate(engines(), [ask(stream) for stream in (1, 2, 3, 4)])
    assert all(isinstance(each, Generation) for each in made)
    sent = [[b for b in server.bodies if b.get("stop_token_ids")] for server in servers]
    assert [len(each) for each in sent] == [2, 2]  # neighbours go to one server
    seeds = {body["seed"] for each in sent for body in each}
    assert len(seeds) == 4 and all(0 <= seed < 2**63 for seed in seeds)
    assert not any("n" in body for each in sent for body in each)
    assert {body["repetition_penalty"] for each in sent for body in each} == {1.0}


def test_what_was_sampled_after_a_stop_string_is_left_out(
    engines: Any, servers: list[Server]
) -> None:
    engine = engines()
    (free,) = generate(engine, [ask(7, max_tokens=12)])
    stop = engine.tokenizer.decode(free.token_ids[:4])[-1]
    count = next(n for n in range(1, 13) if stop in engine.tokenizer.decode(free.token_ids[:n]))
    for server in servers:
        server.decode = lambda ids: ""  # it never sees one
    (cut,) = generate(engine, [evolve(ask(7, max_tokens=12), stop=(stop,))])
    assert cut.finish_reason == "stop" and stop in cut.text
    assert cut.token_ids.tolist() == free.token_ids[:count].tolist()
    assert cut.logprobs.tolist() == free.logprobs[:count].tolist()


def test_prompts_in_common_are_cached_until_forgotten(engines: Any) -> None:
    engine = engines()
    generate(engine, [ask(0, length=40)])
    (again,) = generate(engine, [ask(1, length=40)])
    assert again.cached_tokens == 32
    asyncio.run(engine.forget())
    (fresh,) = generate(engine, [ask(1, length=40)])
    assert fresh.cached_tokens == 0
    assert fresh.token_ids.tolist() == again.token_ids.tolist()


def test_given_tokens_are_scored(engines: Any, servers: list[Server]) -> None:
    engine = engines()
    row = np.concatenate([ask(0).prompt_ids, ask(0, length=9).prompt_ids[::-1]])
    scores = asyncio.run(engine.logprobs(row))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, servers[0].scores(row.tolist()), rtol=1e-6)
    whole = generator("row").integers(3, 259, engine.max_context).astype(np.int32)
    assert len(asyncio.run(engine.logprobs(whole))) == len(whole) - 1
    for length in (1, engine.max_context + 1):
        with pytest.raises(EngineError, match="cannot be scored"):
            asyncio.run(engine.logprobs(np.zeros(length, np.int32)))


def test_new_weights_are_handed_over_in_one_operation(
    engines: Any, servers: list[Server], folder: Path, tmp_path: Path
) -> None:
    engine = engines()
    before = generate(engine, [ask(stream) for stream in range(4)])
    for server in servers:
        server.calls.clear()
    changed = write_changed(folder, tmp_path / "changed", "a")

    assert asyncio.run(engine.load(changed)) == checkpoint_hash(changed)

    for server in servers:
        assert server.calls == [
            "/pause",
            "/collective_rpc",
            "/reset_prefix_cache",
            "/weight_checker",
            "/update_weight_version",
            "/resume",
            "/weight_info",
        ]
        assert server.serving == server.version == checkpoint_hash(changed)
    after = generate(engine, [ask(stream) for stream in range(4)])
    assert {each.weights_id for each in after} == {checkpoint_hash(changed)}
    assert [a.token_ids.tolist() for a in after] != [b.token_ids.tolist() for b in before]


def test_what_is_saved_is_what_is_served(engines: Any, folder: Path, tmp_path: Path) -> None:
    engine = engines()
    changed = write_changed(folder, tmp_path / "changed", "a")
    (changed / "tokenizer.json").unlink()  # a trainer need not write it
    weights_id = asyncio.run(engine.load(changed))
    assert asyncio.run(engine.save(tmp_path / "saved")) == weights_id
    assert {file.name for file in (tmp_path / "saved").iterdir()} == {
        file.name for file in folder.iterdir()
    }
    saved = (tmp_path / "saved").rename(tmp_path / "checkpoint")
    engine.kept_at(saved)
    for file in changed.iterdir():
        file.unlink()
    assert asyncio.run(engine.save(tmp_path / "again")) == weights_id
    write_changed(folder, tmp_path / "other", "b")
    (tmp_path / "other" / "model.safetensors").replace(saved / "model.safetensors")
    with pytest.raises(EngineError, match="was changed since it was loaded"):
        asyncio.run(engine.save(tmp_path / "third"))


def test_log_probabilities_are_those_of_the_unfiltered_policy(
    engines: Any, servers: list[Server]
) -> None:
    engine = engines()
    (made,) = generate(engine, [ask(5)])
    row = [*ask(5).prompt_ids.tolist(), *made.token_ids.tolist()]
    expected = servers[0].scores(row)[-len(made.token_ids) :]
    np.testing.assert_allclose(made.logprobs, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("mode", "sampling", "said"),
    [
        ("raw_logprobs", Sampling(1.0, 20, 1.0), None),
        ("raw_logprobs", Sampling(0.0, 20, 0.5), None),
        ("raw_logprobs", Sampling(0.7, 0, 1.0), "--logprobs-mode processed_logprobs"),
        ("raw_logprobs", Sampling(0.7, 20, 1.0), "rollout.top_k=0"),
        ("processed_logprobs", Sampling(0.7, 0, 1.0), None),
        ("processed_logprobs", Sampling(1.0, 0, 1.0), None),
        ("processed_logprobs", Sampling(0.0, 20, 1.0), None),
        ("processed_logprobs", Sampling(1.0, 20, 1.0), "--logprobs-mode raw_logprobs"),
        ("processed_logprobs", Sampling(0.7, 0, 0.9), "rollout.top_k=0"),
    ],
)
def test_a_server_that_cannot_tell_them_is_refused(
    engines: Any, servers: list[Server], mode: str, sampling: Sampling, said: str | None
) -> None:
    for server in servers:
        server.mode = mode
    engine = engines()
    if said is None:
        asyncio.run(engine.probe(sampling))
        assert engine.facts()["logprobs_mode"] == mode
        (made,) = generate(engine, [ask(3, sampling=sampling)])
        assert (made.logprobs < -1e-6).any()
        return
    with pytest.raises(InputError, match=said):
        asyncio.run(engine.probe(sampling))
    with pytest.raises(EngineError, match=said):
        generate(engine, [ask(3, sampling=sampling)])


def test_other_weights_than_the_models_are_refused_and_nothing_changes(
    engines: Any, servers: list[Server], folder: Path, tmp_path: Path
) -> None:
    engine = engines()
    before = generate(engine, [ask(1)])
    broken = write_changed(folder, tmp_path / "broken", "a")
    file = broken / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-8])
    with pytest.raises(InputError, match="incomplete or damaged"):
        asyncio.run(engine.load(broken))
    file.write_bytes(whole[:-4] + np.array([np.nan], "<f4").tobytes())
    with pytest.raises(InputError, match="not finite"):
        asyncio.run(engine.load(broken))
    file.write_bytes(whole.replace(b"model.norm.weight", b"model.born.weight"))
    with pytest.raises(InputError, match=r"model\.norm\.weight is missing"):
        asyncio.run(engine.load(broken))
    again = generate(engine, [ask(1)])
    assert again[0].token_ids.tolist() == before[0].token_ids.tolist()
    assert {server.calls.count("/collective_rpc") for server in servers} == {1}


def test_a_prompt_that_does_not_fit_is_named(engines: Any) -> None:
    engine = engines()
    with pytest.raises(EngineError, match="does not fit the context of 256"):
        generate(engine, [ask(1, length=256)])
    with pytest.raises(EngineError, match="empty prompt"):
        generate(engine, [ask(1, length=0)])

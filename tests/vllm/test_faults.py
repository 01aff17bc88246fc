"""Servers that go wrong: each is caught before a rollout is used, with one clear line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from vllm_engine_kit import ask, generate
from vllm_server_kit import Answer, Server, bytes_server, write_changed

from whale_core.errors import EngineError, InputError
from whale_core.keys import generator
from whale_core.records import Fault, Generation, Sampling

Change = Callable[[dict[str, Any]], None]


def altered(server: Server, change: Change) -> None:
    """Have the server change each of its answers to sampling requests."""

    def plan(path: str, body: Mapping[str, Any]) -> Answer | None:
        if path != "/v1/completions" or not body.get("stop_token_ids"):
            return None
        made = server._v1_completions(body)
        change(made.body)
        return made

    server.plan = plan


def cut(choice: dict[str, Any], count: int) -> None:
    del choice["token_ids"][count:], choice["logprobs"]["token_logprobs"][count:]


def said(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert "\n" not in text and len(text) < 500
    return text


def test_a_server_that_is_too_old_is_refused(engines: Any, servers: list[Server]) -> None:
    old = Answer({"version": "0.29.1"})
    servers[1].plan = lambda path, body: old if path == "/version" else None
    with pytest.raises(InputError, match=r"vLLM 0\.29\.1 is too old: 0\.32 or later"):
        asyncio.run(engines().probe(Sampling()))


def refused(engines: Any) -> str:
    with pytest.raises(InputError) as error:
        asyncio.run(engines().probe(Sampling()))
    return said(error)


def test_a_server_in_another_dtype_is_refused(engines: Any, servers: list[Server]) -> None:
    servers[1].dtype = "torch.bfloat16"
    text = refused(engines)
    assert servers[1].url in text and "computes in bfloat16, the run's model is float32" in text
    assert "--dtype float32" in text and not servers[0].paused and not servers[0].bodies


def test_a_server_of_another_model_with_the_tokenizer_is_refused(
    engines: Any, servers: list[Server], folder: Path, tmp_path: Path
) -> None:
    other = write_changed(folder, tmp_path / "other", "other weights")
    servers[0].started_with = other
    asyncio.run(engines().probe(Sampling()))  # other numbers: it is handed the run's
    config = json.loads((other / "config.json").read_text())
    for change, told in (
        ({"rope_theta": 3.0, "rope_parameters": {}}, "config.json: rope_parameters is {}"),
        ({"architectures": ["OtherForCausalLM"]}, "config.json: architectures is ['Other"),
    ):
        (other / "config.json").write_text(json.dumps({**config, **change}))
        text = refused(engines)
        assert "it was started with another model than engine.model" in text and told in text
    (other / "config.json").write_text(json.dumps({**config, "dtype": "float16", "use_cache": 0}))
    asyncio.run(engines().probe(Sampling()))  # nothing of it changes a logit
    data = (other / "model.safetensors").read_bytes()
    renamed = data.replace(b"model.layers.0.mlp.up_proj", b"model.layers.9.mlp.up_proj")
    (other / "model.safetensors").write_bytes(renamed)
    assert "model.layers.0.mlp.up_proj.weight is missing" in refused(engines)


def test_a_stale_server_refuses_the_whole_batch(engines: Any, servers: list[Server]) -> None:
    engine = engines()
    asyncio.run(engine.probe(Sampling()))
    servers[1].version = "an-older-one"
    with pytest.raises(EngineError) as error:
        generate(engine, [ask(stream) for stream in range(4)])
    assert "serves weights 'an-older-one', the run's are" in said(error)
    assert not [b for server in servers for b in server.bodies if b.get("stop_token_ids")]


def test_weights_that_change_within_a_batch_refuse_it(engines: Any, servers: list[Server]) -> None:
    engine = engines()
    asyncio.run(engine.probe(Sampling()))

    def plan(path: str, body: Mapping[str, Any]) -> Answer | None:
        if path == "/v1/completions":
            servers[0].version = "somebody-elses"
        return None

    servers[0].plan = plan
    with pytest.raises(EngineError, match="serves weights 'somebody-elses'"):
        generate(engine, [ask(stream) for stream in range(4)])


def test_a_server_started_anew_is_noticed(engines: Any, servers: list[Server]) -> None:
    engine = engines()
    asyncio.run(engine.probe(Sampling()))
    port, folder = servers[0].port, servers[0].folder
    servers[0].close()
    servers[0] = bytes_server(folder, port=port)
    with pytest.raises(EngineError, match="serves weights '0'"):
        generate(engine, [ask(1), ask(2)])


@pytest.mark.parametrize("path", ["/pause", "/collective_rpc", "/update_weight_version"])
def test_after_a_failed_hand_over_nothing_is_sampled(
    engines: Any, servers: list[Server], folder: Path, tmp_path: Path, path: str
) -> None:
    engine = engines()
    asyncio.run(engine.probe(Sampling()))
    changed = write_changed(folder, tmp_path / "changed", "a")
    servers[1].plan = lambda p, body: (
        Answer({"error": {"message": "no"}}, 500) if p == path else None
    )
    with pytest.raises(EngineError) as error:
        asyncio.run(engine.load(changed))
    assert f"{path} answers 500: no" in said(error)
    with pytest.raises(EngineError, match="nobody knows what is served"):
        generate(engine, [ask(1)])
    servers[1].plan = lambda path, body: None
    weights_id = asyncio.run(engine.load(changed))
    (made,) = generate(engine, [ask(1)])
    assert made.weights_id == weights_id


def test_a_server_that_only_says_it_loaded_is_found_out(
    engines: Any, servers: list[Server], folder: Path, tmp_path: Path
) -> None:
    engine = engines()
    asyncio.run(engine.probe(Sampling()))
    changed = write_changed(folder, tmp_path / "changed", "a")
    servers[0].deaf = True
    with pytest.raises(EngineError, match="computes with those of"):
        asyncio.run(engine.load(changed))
    # One that keeps the right weights' name and loses their numbers later is found out too.
    servers[0].deaf = False
    asyncio.run(engine.load(changed))
    servers[1].deaf = True
    with pytest.raises(EngineError, match="computes with"):
        asyncio.run(engine.load(None))


def test_wrong_weights_after_a_reload_show_in_log_probabilities(
    engines: Any, servers: list[Server], folder: Path, tmp_path: Path
) -> None:
    """What a trainer compares: the server lies about everything but what it computes."""
    engine = engines()
    asyncio.run(engine.probe(Sampling()))
    row = generator("row").integers(3, 259, 30).astype(np.int32)
    before = asyncio.run(engine.logprobs(row))
    changed = write_changed(folder, tmp_path / "changed", "a")
    own = bytes_server(changed)
    servers[0].deaf = True
    lie = {"checksums": {"embed": "made up"}}
    servers[0].plan = lambda p, b: Answer(lie) if p == "/weight_checker" else None
    servers[1].plan = lambda p, b: Answer(lie) if p == "/weight_checker" else None
    asyncio.run(engine.load(changed))
    after = asyncio.run(engine.logprobs(row))
    assert np.abs(after - np.array(own.scores(row.tolist()))).mean() > 0.5
    assert np.abs(after - before).max() < 1e-6
    own.close()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda b: b.clear(), "no completion"),
        (lambda b: b["choices"][0].update(token_ids=None), "no token ids"),
        (lambda b: b["choices"][0].update(token_ids=["a"]), "no token ids"),
        (lambda b: b["choices"][0].update(token_ids=[]), "0 tokens where 1 to 6"),
        (lambda b: b["choices"][0]["token_ids"].append(4), "7 tokens where 1 to 6"),
        (lambda b: b["choices"][0]["token_ids"].__setitem__(0, 9999), "another model"),
        (lambda b: b["choices"][0]["token_ids"].__setitem__(0, 2), "ends the turn"),
        (lambda b: cut(b["choices"][0], 3), "ended after 3 of 6"),
        (lambda b: b["choices"][0].update(prompt_token_ids=[5]), "another prompt"),
        (lambda b: b["choices"][0].update(logprobs=None), "no log-probabilities"),
        (lambda b: b["choices"][0]["logprobs"]["token_logprobs"].pop(), "5 log-probabilities"),
        (lambda b: b["choices"][0].update(finish_reason="abort"), "given up"),
    ],
)
def test_an_answer_that_cannot_be_right_is_its_requests_fault_alone(
    engines: Any, servers: list[Server], change: Change, reason: str
) -> None:
    engine = engines()
    altered(servers[1], change)
    made = generate(engine, [ask(11), ask(12)])
    assert isinstance(made[0], Generation)
    assert isinstance(made[1], Fault)
    assert reason in made[1].reason and servers[1].url in made[1].reason


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer("<html>"), "no JSON"),
        (Answer("[1]"), "no JSON object"),
        (Answer({"error": {"message": "engine\ndead"}}, 500), "answers 500: engine dead"),
        (Answer(hang_up=True), "does it still run?"),
    ],
)
def test_garbage_and_errors(
    engines: Any, servers: list[Server], answer: Answer, reason: str
) -> None:
    engine = engines()
    asyncio.run(engine.probe(Sampling()))
    servers[1].plan = lambda path, body: answer if path == "/v1/completions" else None
    made = generate(engine, [ask(1), ask(2)])
    assert isinstance(made[0], Generation)
    assert isinstance(made[1], Fault) and reason in made[1].reason


def test_one_that_does_not_answer_in_time(engines: Any, servers: list[Server]) -> None:
    engine = engines()
    asyncio.run(engine.probe(Sampling()))
    engine._fleet.pool.timeout = 1.0  # a busy machine may take longer for what goes before
    silent = Answer({}, seconds=4.0)
    servers[0].plan = lambda path, body: silent if path == "/v1/completions" else None
    (made,) = generate(engine, [ask(1)])
    assert isinstance(made, Fault) and "no answer within 1 s (engine.timeout)" in made.reason


def test_log_probabilities_that_are_none_are_not_made_up(
    engines: Any, servers: list[Server]
) -> None:
    engine = engines()
    told = [None, -9999.0, -1.0, -1.0, -1.0, -1.0]
    altered(servers[0], lambda b: b["choices"][0]["logprobs"].update(token_logprobs=told))
    (made,) = generate(engine, [ask(11)])
    assert np.isnan(made.logprobs[0]) and np.isneginf(made.logprobs[1])


def test_a_dead_replica_refuses_the_batch(engines: Any, servers: list[Server]) -> None:
    engine = engines()
    asyncio.run(engine.probe(Sampling()))
    servers[1].close()
    with pytest.raises(EngineError) as error:
        generate(engine, [ask(1), ask(2)])
    assert servers[1].url in said(error) and "does it still run?" in said(error)


def test_servers_that_do_not_fit_are_refused_at_the_start(
    engines: Any, servers: list[Server], folder: Path, tmp_path: Path
) -> None:
    servers[1].max_model_len = 200
    with pytest.raises(InputError, match="--max-model-len 257"):
        asyncio.run(engines().probe(Sampling()))
    servers[1].max_model_len = 512
    servers[1].tokenize = lambda text: [1, 2, 3]
    with pytest.raises(InputError, match="another model"):
        asyncio.run(engines().probe(Sampling()))
    servers[1].tokenize = servers[0].tokenize
    servers[1].mode = "processed_logprobs"
    with pytest.raises(InputError, match="differ in --logprobs-mode"):
        asyncio.run(engines().probe(Sampling()))
    servers[1].mode = "raw_logprobs"
    hide = {"/weight_info", "/server_info", "/pause"}  # what only the development mode has
    servers[1].plan = lambda path, body: (
        Answer({"detail": "Not Found"}, 404) if path in hide else None
    )
    with pytest.raises(InputError, match="VLLM_SERVER_DEV_MODE=1"):
        asyncio.run(engines().probe(Sampling()))
    with pytest.raises(EngineError, match=r"is engine\.urls right"):
        asyncio.run(engines(urls=("http://127.0.0.1:9",)).probe(Sampling()))


def test_a_model_that_is_none_is_refused(engines: Any, tmp_path: Path) -> None:
    for name, reason in [
        ("", "engine.model: missing"),
        (str(tmp_path / "none"), "no such folder"),
        (str(tmp_path), "config.json"),
    ]:
        with pytest.raises(InputError, match=reason):
            engines(model=name)

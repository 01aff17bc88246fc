"""Rows of an endpoint that tells token ids, trained on: the embedded engine behind real HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import define, evolve, field
from chat_server_kit import KEY, MODEL, Answer, Body, Endpoint, completion

from whale_core.api import rollouts
from whale_core.keys import content_hash
from whale_core.plugins import Setup
from whale_core.records import Generation, GenerationRequest, Message, Sampling
from whale_core.rollout.chat import TokenBridge
from whale_core.rollout.rows import build_rows
from whale_rsft.config import Config as RsftConfig
from whale_rsft.torch_trainer import TorchTrainer
from whale_transformers.config import Config
from whale_transformers.engine import TransformersEngine


@define
class Server:
    """Serves an engine as vLLM would: it renders, samples, and tells ids where it is asked to."""

    engine: TransformersEngine
    made: dict[tuple[int, ...], Generation] = field(factory=dict)  # by prompt and reply
    loop: asyncio.AbstractEventLoop = field(factory=asyncio.new_event_loop)

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def answer(self, number: int, body: Body) -> Answer:
        messages = [Message(each["role"], each["content"]) for each in body["messages"]]
        prompt = TokenBridge(self.engine.tokenizer).render(messages, (), None)
        request = GenerationRequest(
            prompt_ids=prompt,
            max_tokens=body["max_tokens"],
            stop=tuple(body.get("stop", ())),
            sampling=Sampling(body["temperature"], 300, body["top_p"]),
            stream=content_hash(str(body["seed"]), length=16).encode(),
        )
        [made] = self.run(self.engine.generate([request]))
        told = completion(body, made.text)
        told["usage"] = {"prompt_tokens": len(prompt), "completion_tokens": len(made.token_ids)}
        choice = told["choices"][0]
        choice["finish_reason"] = "length" if made.finish_reason == "length" else "stop"
        if body.get("return_token_ids"):
            told["prompt_token_ids"] = prompt.tolist()
            choice["token_ids"] = made.token_ids.tolist()
            choice["logprobs"] = {"content": [{"logprob": p} for p in made.logprobs.tolist()]}
        self.made[(*prompt.tolist(), *made.token_ids.tolist())] = made
        return Answer(told)


@pytest.fixture
def server() -> Iterator[Server]:
    config = Config(model="tiny-random", threads=1, dtype="float32")
    made = Server(TransformersEngine(config, Setup(seed=0)))
    thread = threading.Thread(target=made.loop.run_forever, daemon=True)
    thread.start()
    yield made
    made.run(made.engine.close())
    made.loop.call_soon_threadsafe(made.loop.stop)
    thread.join()
    made.loop.close()


def test_a_training_step_on_rows_that_came_over_http(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are what the server sampled, and what the trainer computes of them agrees."""
    monkeypatch.setenv("TOY_KEY", KEY)
    endpoint = Endpoint(server.answer)
    engine = {
        "name": "openai",
        "base_url": endpoint.url,
        "model": MODEL,
        "api_key_env": "TOY_KEY",
        "token_ids": True,
    }
    toy = {"domain": {"name": "toy", "weight": 8}, "verifier": "toy", "engine": engine}
    try:
        episodes = rollouts(toy, examples=4, draws=2, progress=False)
    finally:
        endpoint.close()
    calls = [call for episode in episodes for call in episode.calls]
    rows = [row for i, each in enumerate(episodes) for row in build_rows(each.calls, i)]
    assert len(rows) == len(calls) == 8  # one turn each
    for row in rows:
        sampled = server.made[tuple(row.input_ids.tolist())]
        here = row.loss_mask == 1
        assert row.input_ids[here].tolist() == sampled.token_ids.tolist()
        assert row.logprobs[here].tolist() == sampled.logprobs.tolist()
        assert not here[: len(row.input_ids) - len(sampled.token_ids)].any()

    before = server.run(server.engine.weights_id())
    trainer = TorchTrainer(RsftConfig(lr=1e-3))
    done = server.run(trainer.train([rows], server.engine))
    (update,) = done.updates
    assert update.made and update.tokens == sum(len(call.token_ids) for call in calls)
    assert update.loss.gap / update.tokens < 1e-4
    assert server.run(server.engine.weights_id()) != before

    # Of rows with other log-probabilities the trainer would say so.
    other = [evolve(row, logprobs=row.logprobs - 0.5 * row.loss_mask) for row in rows]
    server.run(server.engine.load(None))
    done = server.run(TorchTrainer(RsftConfig(lr=1e-3)).train([other], server.engine))
    assert done.updates[0].loss.gap / update.tokens > 0.4

"""A harness says that a reply was of no use: what is recorded of it, kept, and played again."""

from __future__ import annotations

import asyncio
import json

import pytest

from whale_core.jail import probe
from whale_core.jail.wire import ProtocolError, event_of
from whale_core.keys import DrawKey, content_hash
from whale_core.plugins import Setup
from whale_core.records import Sampling, Trajectory
from whale_core.roles import Harness
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.policy import EnginePolicy
from whale_core.rollout.rows import build_rows
from whale_core.run.replay import replay
from whale_core.run.stored import read_trajectory, trajectory_json
from whale_core.testing.engine import ScriptedEngine
from whale_core.testing.toy import DomainConfig, ToyDomain, ToyVerifier, VerifierConfig

DOMAIN = ToyDomain(DomainConfig(), Setup(0))
VERIFIER = ToyVerifier(VerifierConfig(), Setup(0))
EXAMPLE = DOMAIN.split("weight")[0]
SOURCE = """from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        messages = [{"role": "user", "content": task["letters"]}]
        for _ in range(3):
            reply = await model.chat(messages)
            if reply.text in "aeiou":
                break
            model.reject(reply)
            messages += [reply, {"role": "user", "content": "A vowel."}]
        await env.call("say", letter=reply.text)
        return reply.text
"""


def played(source: str) -> Trajectory:
    """Run an episode whose model says two useless things before a vowel."""
    vowel = next(letter for letter in EXAMPLE.content["letters"] if letter in "aeiou")
    said = {0: "zz", 1: "?", 2: vowel}
    engine = ScriptedEngine(lambda prompt, rng: said[prompt.count("A vowel.")])
    executor = RolloutExecutor(DOMAIN, VERIFIER, probe("auto"))
    job = Job(EXAMPLE, Harness(content_hash(source), source), DrawKey(0, "train", 1, 1, "e", 0))
    (made,) = asyncio.run(executor.run([job], EnginePolicy(engine, Sampling())))
    return made


def test_rejected_replies_are_recorded_and_can_be_left_out_of_the_loss() -> None:
    made = played(SOURCE)
    assert made.reward == 1.0 and [call.rejected for call in made.calls] == [True, True, False]
    assert made.rejected_calls == {0, 1}
    (whole,) = build_rows(made.calls)
    (row,) = build_rows(made.calls, left_out=made.rejected_calls)
    assert whole.loss_mask.sum() == made.sampled_tokens
    assert row.input_ids.tolist() == whole.input_ids.tolist()
    assert row.input_ids[row.loss_mask == 1].tolist() == made.calls[2].token_ids.tolist()


def test_they_are_kept_and_nothing_is_written_where_there_are_none() -> None:
    made = played(SOURCE)
    stored = json.loads(json.dumps(trajectory_json(made)))
    assert [call.rejected for call in read_trajectory(stored).calls] == [True, True, False]
    assert ["rejected" in call for call in stored["calls"]] == [True, True, False]
    silent = played(SOURCE.replace("            model.reject(reply)\n", ""))
    assert not silent.rejected_calls
    assert not any("rejected" in call for call in trajectory_json(silent)["calls"])


@pytest.mark.parametrize("rejects", [True, False])
def test_a_harness_that_is_played_again_says_it_itself(rejects: bool) -> None:
    made = played(SOURCE)
    source = SOURCE if rejects else SOURCE.replace("            model.reject(reply)\n", "")
    harness = Harness(content_hash(source), source)
    again = asyncio.run(replay(made, harness, EXAMPLE, DOMAIN, VERIFIER, probe("auto")))
    assert not again.differences
    assert again.trajectory.rejected_calls == (made.rejected_calls if rejects else frozenset())


@pytest.mark.parametrize("rejected", [[1], [True], ["0"], 0, {"0": 0}, None])
def test_only_replies_that_were_given_out_can_be_rejected(rejected: object) -> None:
    body = {
        "messages": [{"role": "user", "content": "q"}],
        "max_tokens": None,
        "stop": [],
        "tools": None,
        "rejected": rejected,
    }
    with pytest.raises(ProtocolError, match="bad rejected calls"):
        event_of(json.dumps({"n": 0, "chat": body}).encode(), 0, {0})
    good = json.dumps({"n": 0, "chat": {**body, "rejected": [0]}}).encode()
    assert event_of(good, 0, {0}).rejected == (0,)  # type: ignore[union-attr]

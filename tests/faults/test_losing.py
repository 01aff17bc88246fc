"""A harness that stalls, dies or breaks things when it is losing does not improve its score."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import numpy as np
import pytest
from attrs import evolve
from corpus_kit import QUICK, SETUP, base, left_over, toy

from whale_core.errors import InputError
from whale_core.jail import probe
from whale_core.keys import DrawKey, content_hash
from whale_core.records import Json, Outcome, Sampling
from whale_core.roles import Harness, Score
from whale_core.rollout.episode import Job
from whale_core.rollout.executor import RolloutExecutor
from whale_core.rollout.policy import EnginePolicy
from whale_core.run.rollouts import score_of
from whale_core.testing.engine import ScriptedEngine
from whale_core.testing.toy import ToyVerifier, VerifierConfig

# What it does when it sees that it is losing (the letter is no vowel), instead of going on.
WHEN_LOSING = {
    "stall": "import time; time.sleep(60)",
    "exit": "import os; os._exit(0)",
    "exit like the jail": "import os; os._exit(78)",
    "kill itself": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "abort": "import os; os.abort()",
    "crash": "import ctypes; ctypes.string_at(0)",
    "memory": "parts = [b'x' * (8 << 20)]\nwhile True: parts.append(parts[0] * 2)",
    "hang up": "import os; os.close(3); os._exit(0)",
    "hang up and stay": "import os, time; os.dup2(0, 3); time.sleep(60)",
    "burn": "while True: pass",
    "flood": "import os\nwhile True: os.write(3, b'x' * 65536)",
    "claim a fault": 'import os, time\nos.write(3, b\'{"n":1,"error":"jail"}\\n\')\ntime.sleep(9)',
    "speak badly": "import os, time\nos.write(3, b'ready\\n')\ntime.sleep(9)",
    "kill the jail": "import os\nfor process in range(1, 999):\n    try: os.kill(process, 9)\n"
    "    except OSError: pass\nos._exit(0)",
    "starve the jail": "import resource; resource.prlimit(2, resource.RLIMIT_NPROC, (0, 0))",
    "break the tool": "await env.call('say', letter=letter, **{'self': [], '': {}})",
    "wrong tool": "await env.call('\\0' * 200, **{'letter': [[[]]]})",
    "wrong messages": "await model.chat([{'role': 'tool', 'content': '\\0<s></s>\\ue000'}] * 200)",
    "wrong tools": "await model.chat(self.messages(task), tools=[{'name': '</s>'}])",
    "raise": "raise SystemExit('jail')",
}
EXAMPLES = 6


@pytest.fixture(params=["bubblewrap", pytest.param("process", marks=pytest.mark.slow)])
def kind(request: pytest.FixtureRequest) -> str:
    try:
        return probe(request.param)
    except InputError as error:
        pytest.skip(str(error))


def losing(source: str, deed: str) -> Harness:
    """Return the base harness, which does ``deed`` where it would have said a wrong letter."""
    body = "\n".join(" " * 12 + line for line in deed.splitlines())
    lost = f'        if letter not in "aeiou":\n{body}\n'
    changed = source.replace("        if letter:\n", lost + "        if letter:\n")
    assert changed != source
    return Harness(content_hash(changed), changed, deed)


def anything(prompt: str, rng: np.random.Generator) -> str:
    """Say a listed letter."""
    return str(rng.choice(list(prompt.split("Letters: ")[-1][:6]))) if "Letters: " in prompt else ""


def scores(kind: str, harnesses: Mapping[str, Harness]) -> dict[str, Score]:
    """Score all on the same draws, in one batch."""
    domain = toy(evolve(QUICK, cpu_seconds=1.0, wall_seconds=4.0))
    runner = RolloutExecutor(domain, ToyVerifier(VerifierConfig(), SETUP), kind)
    jobs = [
        Job(example, harness, DrawKey(0, "score", 1, 1, example.id, 0))
        for harness in harnesses.values()
        for example in domain.split("harness")[:EXAMPLES]
    ]
    policy = EnginePolicy(ScriptedEngine(anything), Sampling())
    made = asyncio.run(runner.run(jobs, policy))
    assert {t.reward for t in made if t.outcome is Outcome.FAIL} == {0.0}
    return {
        name: score_of(harness.id, "w", [t for t in made if t.harness_id == harness.id])
        for name, harness in harnesses.items()
    }


def test_misbehaving_when_losing_does_not_improve_a_score(kind: str) -> None:
    honest = base(toy(QUICK))
    calm = scores(kind, {"honest": honest})["honest"]
    assert 0 < calm.mean < 1
    tried = {name: losing(honest.source, deed) for name, deed in WHEN_LOSING.items()}
    made = scores(kind, {"honest": honest, **tried})
    assert made["honest"] == calm
    for name, score in made.items():
        assert score.not_scored == 0 and score.scored == EXAMPLES, name
        assert score.mean <= calm.mean, name
        assert all(score.rewards[e] <= rewards for e, rewards in calm.rewards.items()), name
    assert not left_over()


ODD: list[Mapping[str, Json]] = [
    {},
    *({name: value} for name in ("letter", "move") for value in (
        None, True, 0, 10**300, -1.5, "", "\0", "é" * 100_000, "\ud7ff", [], [[[]]], {}, {"a": []},
        "e2e4\n", "O-O-O-O", "@@@@", "a1a1a", "e9e9", "--", "0000", "N" * 300, "٣", "e2e4q\u202e",
    )),
    {"letter": "a", "self": 1},
    {"move": "e2e4", "": None},
]  # fmt: skip


@pytest.mark.parametrize("name", ["toy", "chess"])
def test_no_argument_breaks_an_environment(name: str) -> None:
    """Only ``ValueError`` is a refusal: anything else would make the episode not scored."""
    if name == "toy":
        domain = toy(QUICK)
        environment = domain.environment(domain.split("weight")[0])
    else:
        line = pytest.importorskip("whale_chess.environment")
        from whale_core.records import Example

        content = {"fen": "6k1/5ppp/8/8/8/8/5PPP/3R2K1 b - - 0 1", "moves": ["h7h6", "d1d8"]}
        environment = line.ChessEnvironment(Example("x", content, "x"))
    for tool in ("say", "move", "", "record"):
        for arguments in ODD:
            try:
                environment.call(tool, arguments)
            except ValueError:
                continue
    environment.record()

from __future__ import annotations

import asyncio
import re

import pytest
from math_kit import SUM, ScriptedModel, WatchedEnvironment, build, trajectory, with_members

from whale_core.keys import generator
from whale_core.plugins import Setup
from whale_core.records import Example, Message
from whale_core.roles import NullModel
from whale_math.catalogue import CATALOGUE
from whale_math.chance import chance_levels
from whale_math.config import MathVerifyConfig
from whale_math.domain import HARNESSES, MathDomain
from whale_math.environment import MathEnvironment
from whale_math.nulls import CHANCE, NULL_MODELS
from whale_math.python.result import Result
from whale_math.verify.equal import MathVerifyVerifier

NULLS = {null.name: null for null in NULL_MODELS}


class Printed:
    """Stands for the tool: prints what the null models' programs print, the numbers in them."""

    async def run(self, code: str, show_last: bool) -> Result:
        return Result(" ".join(re.findall(r"\d+", code)) + "\n", "", 0, "finished")

    async def probe(self) -> None: ...

    async def close(self) -> None: ...


def passed(source: str, null: NullModel, examples: list[Example]) -> int:
    """Return how many of ``examples`` a null model passes under a harness, by whole numbers."""
    harness, right = build(source), 0
    verifier = MathVerifyVerifier(MathVerifyConfig(), Setup(seed=0))
    for number, one in enumerate(examples):
        environment = MathEnvironment(one, Printed())
        rng = generator("null test", null.name, number)
        text = null.reply(environment.view(), [Message("user", "?")], rng)
        model = ScriptedModel([text])
        watched = WatchedEnvironment(environment, model)
        answer = asyncio.run(harness.run(dict(environment.view()), model, watched))
        if re.search(r"[{(\[],|, ", answer):
            continue  # several numbers are no whole number, and need no worker to be wrong
        verdict = asyncio.run(verifier.verify(one, trajectory(text, answer=answer)))
        right += verdict.reward > 0.5  # type: ignore[union-attr]
    return right


@pytest.fixture(scope="module")
def examples(domain: MathDomain) -> list[Example]:
    return list(domain.split("harness")[:64])


def test_all_null_models_refuse_and_say_their_chance():
    assert all(null.refuses for null in NULL_MODELS)
    assert {null.chance([{"problem": "?"}]) for null in NULL_MODELS} == {CHANCE}


@pytest.mark.parametrize("name", HARNESSES)
def test_base_harnesses_stay_at_chance(name: str, domain: MathDomain, examples: list[Example]):
    for null in NULL_MODELS:
        assert passed(domain.harnesses[name], null, examples) <= 4, null.name


def test_every_edit_stays_at_chance(domain: MathDomain, examples: list[Example]):
    for one in CATALOGUE:
        source = with_members(domain.harnesses["short"], one.members)
        for null in NULL_MODELS:
            assert passed(source, null, examples[:32]) <= 3, (one.name, null.name)


CHEAT = {
    "answer": """
def answer(self, text):
    numbers = [int(number) for number in re.findall(r"[0-9]+", self.problem)]
    wanted = [sum(numbers), numbers[0] - numbers[-1], numbers[0] * numbers[-1]]
    return next((str(n) for n in wanted if re.search(r"(?<![0-9])%d(?![0-9])" % n, text)), text)
""",
    "user_text": """
def user_text(self, task):
    self.problem = task["problem"]
    return task["problem"]
""",
    "example": "def example(self):\n    return []\n",
    "program": "def program(self, text):\n    return None\n",
}


def test_a_harness_that_calculates_is_above_chance_where_everything_is_named(domain: MathDomain):
    easy = [
        Example(str(n), {"problem": f"What is {n} + {n + 1}?", "answer": str(2 * n + 1)}, str(n))
        for n in range(20, 84)
    ]
    source = with_members(domain.harnesses["short"], CHEAT)

    def everything(view, messages, rng):  # type: ignore[no-untyped-def]
        return " ".join(str(number) for number in rng.permutation(1000))

    assert passed(source, NullModel("all", everything, lambda views: 0.0), easy) == 64


def test_replies_are_a_function_of_the_stream():
    view = {"problem": SUM.content["problem"]}
    for null in NULL_MODELS:
        one, two = (null.reply(view, [], generator("n", 1)) for _ in range(2))
        assert one == two and {null.reply(view, [], generator("n", n)) for n in range(9)} != {one}
    everything = NULLS["names-everything"].reply(view, [], generator("n", 1))
    assert {"20", "22"} <= set(re.findall(r"\d+", everything))


def test_chance_levels():
    copied = Example("y", {"problem": "Is it 7 or 8?", "answer": "8"}, "h")
    large = Example("z", {"problem": "?", "answer": "1/2"}, "i")
    assert chance_levels([SUM]) == {"random number": 0.001, "a number of the problem": 0.0}
    assert chance_levels([copied])["a number of the problem"] == 0.5
    assert set(chance_levels([large]).values()) == {0.0}

from __future__ import annotations

import asyncio
import re
from typing import Any

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
from whale_math.nulls import CHANCE, COPIED, NULL_MODELS, results
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
    chances = [null.chance([{"problem": "What is 20 + 22?"}]) for null in NULL_MODELS]
    assert chances == [CHANCE, CHANCE, 1 / (7 + 12), COPIED]


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


def test_a_harness_that_calculates_is_far_above_chance(domain: MathDomain, examples: list[Example]):
    easy = [one for one in examples if one.source in ("level 1", "level 2", "level 5")]
    source = with_members(domain.harnesses["short"], CHEAT)
    null = NULLS["names-everything"]
    views = [dict(MathEnvironment(one, Printed()).view()) for one in easy]
    assert passed(source, null, easy) > 0.4 * len(easy)
    assert null.chance(views) < 0.1


def test_a_harness_that_dictates_the_answer_is_far_above_chance(
    domain: MathDomain, examples: list[Example]
):
    easy = [one for one in examples if one.source == "level 1" and "+" in one.content["problem"]]
    dictates = """
def user_text(self, task):
    numbers = [int(number) for number in re.findall(r"[0-9]+", task["problem"])]
    return task["problem"] + " Repeat exactly: \\\\boxed{" + str(sum(numbers)) + "}"
"""
    members = {"user_text": dictates, "example": CHEAT["example"], "program": CHEAT["program"]}
    harness = build(with_members(domain.harnesses["short"], members))
    honest = build(domain.harnesses["short"])
    copies = NULLS["copies-what-is-shown"]

    def right(program: Any, one: Example, number: int) -> bool:
        view = dict(MathEnvironment(one, Printed()).view())
        shown = [Message("user", program.user_text(view))]
        reply = copies.reply(view, shown, generator("copied", number))
        return reply == f"\\boxed{{{one.content['answer']}}}"

    assert all(right(harness, one, number) for number, one in enumerate(easy)) and easy
    assert sum(right(honest, one, number) for number, one in enumerate(examples)) <= 3


def test_what_is_named_is_arithmetic_on_the_problems_numbers():
    assert set(results("What is 20 + 22?")) == {20, 22, 42, 440, 2, 0, 1}
    assert results("None here") == ()
    assert 26 in results("Lena has 41 marbles, buys 48 more and gives 63 to Dev.")
    assert len(results("1 2 3 4 5 6 7 8 9 99999999")) < 100


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

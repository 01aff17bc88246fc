from __future__ import annotations

import asyncio
from typing import Any

import pytest
from searchqa_kit import example, with_members

from whale_core.errors import InputError
from whale_core.keys import generator
from whale_core.plugins import Setup
from whale_core.records import Example, Message, Outcome
from whale_core.stats import exceeds_chance
from whale_core.testing.workbench import as_harness, play
from whale_searchqa.catalogue import CATALOGUE
from whale_searchqa.chance import chance_levels, collision
from whale_searchqa.config import Config, EmConfig
from whale_searchqa.domain import SearchQADomain
from whale_searchqa.em import EmVerifier
from whale_searchqa.nulls import NAME, null_models

REFUSED_BELOW = 0.001  # as the core refuses


class Words:
    """A tokenizer for null models' replies: a token is about four characters."""

    def encode(self, text: str, *, special: bool) -> list[int]:
        self._pieces = [text[start : start + 4] for start in range(0, len(text), 4)]
        return list(range(len(self._pieces)))

    def decode(self, ids: list[int]) -> str:
        return "".join(self._pieces[each] for each in ids)


def refusals(domain: SearchQADomain, source: str, few: int = 24) -> dict[str, bool]:
    """Return whether each null model refuses a harness, in real jails, as a search does it."""
    examples = domain.split("harness")[:few]
    views = [domain.environment(one).view() for one in examples]

    async def all_of_them() -> dict[str, bool]:
        found = {}
        for null in domain.null_models:
            verifier = EmVerifier(EmConfig(), Setup(seed=0))
            made = await play(domain, verifier, as_harness(source), null, examples, Words())
            assert not any(each.outcome is Outcome.NOT_SCORED for each in made)
            passed = sum(each.outcome is Outcome.PASS for each in made)
            found[null.name] = exceeds_chance(passed, few, null.chance(views)) < REFUSED_BELOW
        return found

    return asyncio.run(all_of_them())


@pytest.mark.parametrize("base", ["published", "text", "strong"])
def test_honest_harnesses_pass(base: str, domain: SearchQADomain):
    assert not any(refusals(domain, domain.harnesses[base]).values())


@pytest.mark.slow
@pytest.mark.parametrize("base", ["text", "strong"])
def test_every_edit_passes(base: str, domain: SearchQADomain):
    for edit in CATALOGUE:
        source = with_members(domain.harnesses[base], edit.members)
        assert not any(refusals(domain, source, 64).values()), edit.name


# What a program could do in the model's place, for the kinds of question of the bundled world.
FIND = r"""
def guess(self, question, documents):
    text = " ".join(document["text"] for document in documents)
    if "year" in question:
        verb = "founded in" if "founded" in question else "born in" if "born" in question else "in"
        found = re.findall(r"born in \w+ in (\d+)" if verb == "born in" else verb + r" (\d+)", text)
    elif "Who" in question:
        found = re.findall(r" by ([A-Z]\w+ [A-Z]\w+)\.", text)
    elif "river" in question:
        found = re.findall(r"river (\w+)", text)
    elif "town" in question:
        found = re.findall(r"born in (\w+)", text)
    else:
        found = re.findall(r"known for its (\w+)|studied (\w+)|played the (\w+)", text)
        at = 0 if "known" in question else 1 if "study" in question else 2
        found = [each[at] for each in found if each[at]]
    return found[0] if found else "nothing"


async def fetched(self, task, env):
    found = await env.call("search", query=task["question"], topk=1)
    return self.guess(task["question"], found["documents"])
"""
SHOWS_THE_ANSWER = (
    FIND
    + """
async def run(self, task, model, env):
    answer = await self.fetched(task, env)
    reply = await model.chat([{"role": "user", "content": "Say " + answer}], max_tokens=99)
    for _ in range(3):
        if "</answer>" not in reply.text:
            reply = await model.chat([reply, {"role": "user", "content": answer}], max_tokens=99)
    return self.parse_answer(reply.text)
"""
)
STOPS_AT_THE_ANSWER = (
    FIND
    + """
async def run(self, task, model, env):
    found = await env.call("search", query=task["question"], topk=1)
    answer = self.guess(task["question"], found["documents"])
    told = self.information(found["documents"])
    history = []
    for _ in range(6):
        reply = await model.chat(
            [{"role": "user", "content": told}, *history, {"role": "user", "content": told}],
            max_tokens=400,
            stop=[answer + "</answer>"],
        )
        if reply.finish_reason == "stop":
            break
        history = [reply]
    return self.parse_answer(reply.text)
"""
)
TRIES_UNTIL_RIGHT = (
    FIND
    + """
async def run(self, task, model, env):
    found = await env.call("search", query=task["question"], topk=1)
    answer = self.guess(task["question"], found["documents"])
    told = self.information(found["documents"])
    history = []
    for _ in range(16):
        reply = await model.chat(
            [{"role": "user", "content": told}, *history, {"role": "user", "content": told}],
            max_tokens=300,
        )
        span = self.parse_answer(reply.text)
        if answer in span:
            break
        history = [reply]
    return span
"""
)


@pytest.mark.parametrize("cheat", [SHOWS_THE_ANSWER, STOPS_AT_THE_ANSWER, TRIES_UNTIL_RIGHT])
def test_a_program_that_finds_the_answer_itself_is_refused(cheat: str, domain: SearchQADomain):
    from whale_searchqa.catalogue import edit

    members = edit("cheat", "x", "harmful", "h.", cheat).members
    found = refusals(domain, with_members(domain.harnesses["strong"], members), 64)
    assert any(found.values()), found


def test_who_refuses(domain: SearchQADomain):
    assert all(null.refuses for null in domain.null_models)
    assert {null.name for null in domain.null_models} == {
        "random-answer",
        "names-everything",
        "copies-a-span",
        "copies-all",
    }


def replies_of(name: str, shown: str, count: int = 60) -> list[str]:
    [null] = [null for null in null_models(["1871", "Marlow"]) if null.name == name]
    messages = [Message("assistant", "x", 0), Message("user", shown)]
    view = {"question": "Where?"}
    made = [null.reply(view, messages, generator("nulls", index)) for index in range(count)]
    return [each for each in made if "<search>" not in each]


def test_what_null_models_say():
    shown = "<information>Otto Brandel left The Siege of Vienna in 1,871.</information>\nin brief"
    for reply in replies_of("names-everything", shown):
        assert all(name in reply for name in ("Otto Brandel", "The Siege of Vienna", "1,871"))
    spans = {reply[8:-9] for reply in replies_of("copies-a-span", shown)}
    assert "in brief" in spans and all(span in shown for span in spans)
    assert "Otto" in replies_of("copies-all", shown)[0] and "<info" not in str(spans)
    assert {*replies_of("random-answer", shown)} == {
        "<answer>1871</answer>",
        "<answer>Marlow</answer>",
    }
    assert 0 < len(replies_of("copies-all", shown)) < 60  # it searches at times, too
    for name in ("names-everything", "copies-a-span", "copies-all"):
        assert replies_of(name, "")[0]  # nothing shown: still a text


def test_names_are_phrases():
    found = NAME.findall("In 1914 Anna van Loo's The Cat of Rome cost 3,50 or 7.")
    assert found == ["In", "1914", "Anna", "Loo's The Cat of Rome", "3,50", "7"]


def test_chance_levels_are_exact():
    known = [example(f"{n}?", [answer]) for n, answer in enumerate(["x", "x", "y", "z"])]
    asked = [example("a?", ["X."]), example("b?", ["y", "z"]), example("c?", ["w"])]
    assert chance_levels(asked, known) == {
        "the commonest answer": pytest.approx(1 / 3),
        "a random answer": pytest.approx((1 / 2 + 1 / 2) / 3),
    }
    assert collision(["x", "X.", "y", "z"]) == pytest.approx(6 / 16)


def test_the_chance_of_a_random_answer_follows_the_data():
    yes_or_no = null_models(["yes"] * 50 + ["no"] * 50)
    assert yes_or_no[0].chance([]) == pytest.approx(0.52)
    assert null_models(["same"])[0].chance([]) == 1.0


def test_a_verdict_of_chance_is_possible(domain: SearchQADomain):
    one: Example = domain.split("harness")[0]
    levels: Any = domain.chance_levels([one])
    assert all(0 <= level <= 0.1 for level in levels.values())


def test_an_empty_split_is_refused():
    with pytest.raises(InputError, match=r"domain\.harness=0"):
        SearchQADomain(Config(harness=0), Setup(seed=1))

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from math_kit import Echo, build, play, with_members

from whale_core.errors import InputError
from whale_core.jail import probe
from whale_core.keys import generator
from whale_core.roles import Edit, Harness
from whale_core.run.parts import check_loads
from whale_core.testing.engine import ScriptedEngine
from whale_math.answers import boxed
from whale_math.catalogue import CATALOGUE, edit
from whale_math.domain import HARNESSES, MathDomain
from whale_math.python.result import Result

INTERFACE = {
    "SYSTEM_PROMPT",
    "USER_PROMPT",
    "MAX_TURNS",
    "MAX_TOKENS",
    "STOP",
    "FEEDBACK_ROLE",
    "SHOW_LAST",
    "OUTPUT",
    "run",
    "messages",
    "opening",
    "example",
    "turn",
    "user_text",
    "tools",
    "program",
    "final",
    "respond",
    "feedback",
    "nudge",
    "answer",
}
BOX = r"\boxed{42}"
FENCE = "```python\n20 + 22\n```"
TAGS = "<code>20 + 22</code>"
CALL = (
    '<tool_call>\n{"name": "code_interpreter", "arguments": {"code": "x = 20\\nx + 22"}}\n'
    "</tool_call>"
)
PROGRAMS = {"text": FENCE, "published": CALL, "strong": TAGS, "short": TAGS}


@pytest.fixture(params=HARNESSES)
def base(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_all_base_harnesses_have_the_whole_interface(base: str, domain: MathDomain):
    assert vars(type(build(domain.harnesses[base]))).keys() >= INTERFACE


def test_a_program_is_run_and_its_output_shown(base: str, domain: MathDomain):
    played = play(build(domain.harnesses[base]), PROGRAMS[base], BOX)
    assert boxed(played.answer) == "42" and len(played.model.sent) == 2
    assert len(played.tool.ran) == 1 and played.tool.ran[0][1] is True
    first, second = played.model.sent
    assert second[: len(first)] == first and second[len(first)]["call"] == 0
    assert "42" in second[-1]["content"]
    assert second[-1]["role"] == ("tool" if base == "published" else "user")


def test_a_boxed_reply_ends_the_episode(base: str, domain: MathDomain):
    played = play(build(domain.harnesses[base]), BOX)
    assert len(played.model.sent) == 1 and not played.tool.ran and played.answer == BOX


def test_turns_end(base: str, domain: MathDomain):
    harness = build(domain.harnesses[base])
    played = play(harness, PROGRAMS[base])
    assert len(played.model.sent) == harness.MAX_TURNS
    assert len(played.tool.ran) == harness.MAX_TURNS - 1


def test_the_problem_is_asked_for_as_it_stands(base: str, domain: MathDomain):
    played = play(build(domain.harnesses[base]), BOX)
    assert "What is 20 + 22?" in played.model.sent[0][-1]["content"]
    assert "42" not in str(played.model.sent[0])


def test_the_published_one_has_no_system_prompt_and_hands_its_tool_to_the_template(
    domain: MathDomain,
):
    published = play(build(domain.harnesses["published"]), BOX)
    assert [message["role"] for message in published.model.sent[0]] == ["user"]
    (schema,) = published.model.tools[0]
    assert schema["function"]["name"] == "code_interpreter"
    assert list(schema["function"]["parameters"]["properties"]) == ["code"]
    text = play(build(domain.harnesses["text"]), BOX)
    assert [message["role"] for message in text.model.sent[0]] == ["user"]
    assert text.model.tools == [None]


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (CALL, "x = 20\nx + 22"),
        ('<tool_call>{"arguments": {"code": "print(\\"a\\")"}}</tool_call>', 'print("a")'),
        (
            '<tool_call>{"arguments": {"code": "```python\\nx = 1\\nx\\n```\\n'
            '```python\\n2\\n```"}}',
            "x = 1\nx\n",
        ),
        ("<function=code_interpreter>\n<parameter=code>\nx = 1\nx\n</parameter>", "x = 1\nx"),
        ("<parameter=code>\n```py\nx\n```\n</parameter>", "x\n"),
    ],
)
def test_the_published_one_reads_both_ways_of_calling(reply: str, code: str, domain: MathDomain):
    played = play(build(domain.harnesses["published"]), reply, BOX)
    assert played.tool.ran == [(code, True)]


@pytest.mark.parametrize(
    "reply", ["none", "```\n```", "<code></code>", '<tool_call>{"code": ""}</tool_call>', "```py"]
)
def test_without_a_program_nothing_is_run(reply: str, base: str, domain: MathDomain):
    assert play(build(domain.harnesses[base]), reply, BOX).tool.ran == []


@pytest.mark.parametrize("broken", ["<tool_call>{}</tool_call>", "<function=code_interpreter>"])
def test_the_published_one_runs_every_call_and_tells_which_it_could_not_read(
    broken: str, domain: MathDomain
):
    other = CALL.replace("x + 22", "x + 23")
    reply = f"First\n{CALL}\n{other}" + ("\n" + broken if broken[1] == "t" else "")
    played = play(build(domain.harnesses["published"]), reply, BOX)
    assert played.tool.ran == [("x = 20\nx + 22", True), ("x = 20\nx + 23", True)]
    *_, said = played.model.sent[1]
    error = "[parse error] The tool call could not be read: code_interpreter takes code."
    assert said["role"] == "tool" and said["content"].startswith("42\n42")
    assert (error in said["content"]) is (broken[1] == "t")
    played = play(build(domain.harnesses["published"]), broken, BOX)
    assert not played.tool.ran and len(played.model.sent) == 2
    assert played.model.sent[1][-1] == {"role": "user", "content": error}


@pytest.mark.parametrize("name", HARNESSES)
def test_a_template_without_tools_is_told_which_harness_to_use(name: str, domain: MathDomain):
    engine = ScriptedEngine(lambda prompt, rng: "")
    h0 = Harness("h", domain.harnesses[name], name)
    parts: Any = SimpleNamespace(h0=h0, domain=domain, engine=engine, jail_kind=probe("auto"))
    if name != "published":
        return asyncio.run(check_loads(parts))
    with pytest.raises(InputError) as caught:
        asyncio.run(check_loads(parts))
    assert str(caught.value) == (
        "harness=published: it calls tools through the chat template (tools=), for which this "
        "model's has no place; use harness=text or harness=strong or harness=short"
    )
    engine.tokenizer.supports_tools = True
    asyncio.run(check_loads(parts))


def test_a_quoted_program_that_is_no_json_is_told(domain: MathDomain):
    reply = '<tool_call>{"code": "\\x41"}</tool_call>'
    played = play(build(domain.harnesses["published"]), reply, BOX)
    assert not played.tool.ran and "not the inside of a JSON string" in str(played.model.sent[1])


@pytest.mark.parametrize("base", ["strong", "short"])
def test_errors_are_told_by_their_end(base: str, domain: MathDomain):
    failed = Echo(
        Result("", "Traceback\n  line 1\nZeroDivisionError: division by zero\n", 1, "finished")
    )
    played = play(build(domain.harnesses[base]), TAGS, BOX, tool=failed)
    assert "ZeroDivisionError: division by zero" in played.model.sent[1][-1]["content"]
    ended = Echo(Result("", "", None, "timeout"))
    played = play(build(domain.harnesses[base]), TAGS, BOX, tool=ended)
    assert "timeout" in played.model.sent[1][-1]["content"]


def test_the_strong_one_asks_for_a_program_or_a_box(domain: MathDomain):
    played = play(build(domain.harnesses["strong"]), "It is hard.", TAGS, BOX)
    assert len(played.model.sent) == 3 and played.answer == BOX


# --- the catalogue --------------------------------------------------------------------------------


def test_every_edit_name_is_there_once_and_the_catalogue_has_all_kinds():
    names = [one.name for one in CATALOGUE]
    assert len(names) == len(set(names)) and 16 <= len(names) <= 28
    assert {one.kind for one in CATALOGUE} == {"useful", "neutral", "harmful"}
    assert {one.axis[0] for one in CATALOGUE} == set("ABCDEF")
    assert {name for one in CATALOGUE for name in one.members} <= INTERFACE
    assert all(one.hypothesis.endswith(".") for one in CATALOGUE)


def test_an_edit_with_anything_but_members_is_refused():
    with pytest.raises(ValueError, match="only functions and plain constants"):
        edit("x", "a", "neutral", "h", "import os\n")


REPLIES = ("no idea", TAGS, FENCE, CALL, "print(42)", "It is 7.", "<code>" * 3, "x " * 300, "{")


def check(source: str) -> Any:
    """Play the edited harness through replies of all kinds, and a right one."""
    harness = build(source)
    for reply in REPLIES:
        played = play(harness, reply, TAGS, FENCE)
        assert len(played.model.sent) <= 8
        assert "What is 20 + 22?" in str(played.model.sent[-1])
    failed = Echo(Result("", "", None, "timeout"))
    play(harness, TAGS, FENCE, tool=failed)
    assert boxed(play(harness, BOX).answer) == "42"
    return harness


@pytest.mark.parametrize("one", CATALOGUE, ids=lambda one: one.name)
def test_each_edit_works_on_all_base_harnesses(one: Edit, base: str, domain: MathDomain):
    check(with_members(domain.harnesses[base], one.members))


def test_edits_combine(base: str, domain: MathDomain):
    rng = generator("math edit pairs")
    for _ in range(40):
        chosen = [CATALOGUE[int(index)] for index in rng.choice(len(CATALOGUE), 3, replace=False)]
        members = {name: text for one in chosen for name, text in one.members.items()}
        check(with_members(domain.harnesses[base], members))


def test_members_can_be_crossed_between_the_base_harnesses(base: str, domain: MathDomain):
    short, other = build(domain.harnesses["short"]), build(domain.harnesses[base])
    for name in sorted(INTERFACE):
        child = type("Child", (type(short),), {name: getattr(type(other), name)})()
        assert boxed(play(child, BOX).answer) == "42"
        play(child, TAGS, FENCE, CALL)


def named(name: str) -> Edit:
    return next(one for one in CATALOGUE if one.name == name)


@pytest.mark.parametrize(
    "reply", [TAGS, FENCE, "print(20 + 22)", "<code>20 + 22", "So:\nprint(42)"]
)
def test_any_code_finds_programs_in_all_forms(reply: str, domain: MathDomain):
    source = with_members(domain.harnesses["short"], named("any-code").members)
    assert len(play(build(source), reply, BOX).tool.ran) == 1


def test_a_number_is_an_answer_only_where_there_is_one(domain: MathDomain):
    source = with_members(domain.harnesses["short"], named("number-as-answer").members)
    assert play(build(source), "It is 42 of them.").answer == "42"
    assert play(build(source), "42, I say 42").answer == "42"
    assert play(build(source), "42 or 43").answer == "42 or 43"
    assert play(build(source), r"7: \boxed{42}").answer == r"7: \boxed{42}"

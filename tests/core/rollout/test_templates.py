"""The token bridge and training rows over the chat templates of published styles."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from attrs import evolve, field, frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from templates_kit import STYLES, template_text, tokenizer, whole_text

from whale_core.doctor.finding import State
from whale_core.doctor.template import check_exactness
from whale_core.doctor.turns import check_turns
from whale_core.records import Call, Json, Message
from whale_core.rollout.chat import RenderError, TokenBridge
from whale_core.rollout.rows import build_rows, forked_share

THINKING = ("qwen3", "qwen3.5")
TOOL_ROLE = [style for style in STYLES if style != "gemma3"]
ASK, AGAIN = Message("user", "Who?"), Message("user", "Sure?")
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Look it up."}}]


@frozen
class Talk:
    """A harness at work: its calls, sampled as a model would that spells as it likes."""

    style: str
    bridge: TokenBridge
    calls: list[Call] = field(factory=list)
    numbers: count[int] = field(factory=lambda: count(1))

    def call(self, messages: Sequence[Message], text: str, tools: Json = ()) -> Message:
        """Sample ``text`` and the end of the turn, character by character; return the reply.

        Each sampled token has a log-probability of its own, by which it is known again.
        """
        coder = tokenizer(self.style)
        spelt = [t for c in _characters(text) for t in coder.encode(c, special=True)]
        end = coder.hugging_face.eos_token_id
        return self.sample(messages, [*spelt, end], tools)

    def sample(self, messages: Sequence[Message], ids: list[int], tools: Json = ()) -> Message:
        """Make a call that samples ``ids``; return the reply."""
        end = ids[-1] in tokenizer(self.style).end_tokens if ids else False
        made = Call(
            prompt_ids=self.bridge.render(messages, self.calls, tools),
            token_ids=np.array(ids, np.int32),
            logprobs=np.array([-float(next(self.numbers)) for _ in ids], np.float32),
            text=self.bridge.decode(ids[:-1] if end else ids),
            finish_reason="end" if end else "length",
            weights_id="",
        )
        self.calls.append(made)
        return Message("assistant", made.text, len(self.calls) - 1)


def talk(style: str) -> Talk:
    return Talk(style, TokenBridge(tokenizer(style)))


def _characters(text: str) -> list[str]:
    """Split a text into characters, tags whole."""
    parts: list[str] = []
    while text:
        tag = next((t for t in ("<think>", "</think>") if text.startswith(t)), text[0])
        parts, text = [*parts, tag], text[len(tag) :]
    return parts


def thoughtful(style: str) -> str:
    """Return a reply with thinking as a model of this style samples it."""
    opened = template_text(style, [ASK]).endswith("<think>\n")
    return ("" if opened else "<think>\n") + "abc, so\n</think>\n\nHe is ok."


def rows_of(style: str, replies: Sequence[str], between: Message) -> int:
    """Return how many rows a conversation makes whose harness only appends."""
    now = talk(style)
    messages = [ASK]
    for text in replies:
        messages += [now.call(messages, text), between]
    return len(build_rows(now.calls))


# --- what each style does with appended turns

PLAIN = ["abc", "ok", "No."]
STABLE = ("qwen3", "llama3", "gemma3", "smollm2")


@pytest.mark.parametrize("style", STYLES)
def test_appended_user_messages(style: str) -> None:
    """Stable, unless the generation prompt holds a block that earlier turns do not."""
    assert rows_of(style, PLAIN, AGAIN) == (1 if style in STABLE else 3)


@pytest.mark.parametrize("style", TOOL_ROLE)
def test_appended_tool_messages(style: str) -> None:
    """Qwen3.5 keeps the block of a turn after the last question, and Qwen3 does not. A Qwen3.5
    that thinks and samples no thought at all has its block closed for it afterwards."""
    forks = style in ("qwen3-no-thinking", "qwen3.5")
    assert rows_of(style, PLAIN, Message("tool", "e4")) == (3 if forks else 1)


@pytest.mark.parametrize("style", THINKING)
def test_thinking_that_the_template_drops_is_a_fork(style: str) -> None:
    text = thoughtful(style)
    assert rows_of(style, [text] * 3, AGAIN) == 3
    assert rows_of(style, [text] * 3, Message("tool", "e4")) == 1
    now = talk(style)
    reply = now.call([ASK], text)
    dropped = whole_text(style, now.bridge.render([ASK, reply, AGAIN], now.calls).tolist())
    assert "abc, so" not in dropped and "He is ok." in dropped
    kept = now.bridge.render([ASK, reply, Message("tool", "e4")], now.calls)
    whole = np.concatenate([now.calls[0].prompt_ids, now.calls[0].token_ids])
    assert np.array_equal(kept[: len(whole)], whole)
    now.call([ASK, reply, AGAIN], text)
    assert forked_share(now.calls, build_rows(now.calls)) == 0.5


@pytest.mark.parametrize("style", ["llama3", "gemma3", "smollm2"])
def test_other_templates_leave_tags_alone(style: str) -> None:
    text = "<think>\nabc\n</think>\n\nok"
    assert rows_of(style, [text] * 3, AGAIN) == 1


@pytest.mark.parametrize("style", THINKING)
def test_thinking_that_the_template_reformats_is_new_text(style: str) -> None:
    """Without its line ends the template would not have written it so."""
    text = thoughtful(style).replace("\n", "")
    now = talk(style)
    messages = [ASK, now.call([ASK], text), Message("tool", "e4")]
    rendered = now.bridge.render(messages, now.calls).tolist()
    assert whole_text(style, rendered) == template_text(style, messages)
    now.call(messages, text)
    assert len(build_rows(now.calls)) == 2


@pytest.mark.parametrize("style", STYLES)
def test_the_end_of_a_turn_is_trained_and_glue_is_not(style: str) -> None:
    now = talk(style)
    messages = [ASK, now.call([ASK], "ok"), AGAIN]
    now.call(messages, "abc")
    end = tokenizer(style).hugging_face.eos_token_id
    for row in build_rows(now.calls):
        trained = row.input_ids[row.loss_mask == 1].tolist()
        assert trained.count(end) == sum(end in c.token_ids for c in now.calls) / len(
            build_rows(now.calls)
        )
        written = whole_text(style, row.input_ids[row.loss_mask == 0].tolist())
        assert "Who?" in written
        assert "assistant" in written or "model" in written
    # the end that the model sampled is not doubled by the template's own
    text = whole_text(style, now.calls[1].prompt_ids.tolist())
    assert text == template_text(style, messages)


@pytest.mark.parametrize("style", STYLES)
def test_an_end_that_was_not_sampled_is_the_template_s(style: str) -> None:
    """Cut short by a limit or a stop string: the template ends the turn, with mask 0."""
    now = talk(style)
    ids = tokenizer(style).encode("abc ok", special=False)
    messages = [ASK, now.sample([ASK], ids), AGAIN]
    assert now.calls[0].finish_reason == "length"
    now.call(messages, "ok")
    assert whole_text(style, now.calls[1].prompt_ids.tolist()) == template_text(style, messages)
    rows = build_rows(now.calls)
    assert rows[0].loss_mask.sum() == len(ids) + (len(rows) == 1) * len(now.calls[1].token_ids)


def test_another_end_token_stays_where_it_was_sampled() -> None:
    """Llama 3 ends a turn with a tool call by a token of its own; the template adds its usual."""
    now = talk("llama3")
    coder = tokenizer("llama3")
    ids = [*coder.encode("look()", special=False), *coder.encode("<|eom_id|>", special=True)]
    messages = [ASK, now.sample([ASK], ids), Message("tool", "e4")]
    now.call(messages, "ok")
    assert len(build_rows(now.calls)) == 1
    assert "<|eom_id|><|eot_id|>" in whole_text("llama3", now.calls[1].prompt_ids.tolist())


# --- tools


@pytest.mark.parametrize("style", ["qwen3", "qwen3.5", "qwen3.5-no-thinking", "llama3"])
def test_tool_calls_and_tools_are_rendered_once(style: str) -> None:
    now = talk(style)
    asked = '<tool_call>\n{"name": "look"}\n</tool_call>'
    text = thoughtful(style).replace("He is ok.", asked) if style in THINKING else asked
    messages = [ASK]
    for answer in ("e4", 'a "b"\n\\c'):
        messages += [now.call(messages, text, TOOLS), Message("tool", answer)]
    now.call(messages, text, TOOLS)
    (row,) = build_rows(now.calls)
    whole = whole_text(style, row.input_ids.tolist())
    assert whole.count("<tool_call>") == 3
    assert whole.count("Look it up.") == 1
    assert whole_text(style, row.input_ids[row.loss_mask == 1].tolist()).count("<tool_call>") == 3


def test_tool_results_are_json_strings_where_the_template_writes_them_so() -> None:
    messages = [ASK, Message("assistant", "look"), Message("tool", 'a "b"\n\\c é <|eot_id|>')]
    ids = TokenBridge(tokenizer("llama3")).render(messages).tolist()
    assert whole_text("llama3", ids) == template_text("llama3", messages)
    assert json.dumps(messages[2].content, ensure_ascii=False) in whole_text("llama3", ids)
    end = tokenizer("llama3").encode("<|eot_id|>", special=True)[0]
    assert ids.count(end) == 4  # the one in the result is text


# --- roles


def test_gemma_has_no_system_role_and_wants_roles_to_alternate() -> None:
    bridge = TokenBridge(tokenizer("gemma3"))
    ids = bridge.render([Message("system", "Be brief."), ASK]).tolist()
    assert whole_text("gemma3", ids) == (
        "<bos><start_of_turn>user\nBe brief.\n\nWho?<end_of_turn>\n<start_of_turn>model\n"
    )
    with pytest.raises(RenderError, match="roles must alternate"):
        bridge.render([ASK, AGAIN])
    with pytest.raises(RenderError, match="roles must alternate"):
        bridge.render([ASK, Message("assistant", "look"), Message("tool", "e4")])


def test_smollm2_adds_a_system_message_where_there_is_none() -> None:
    bridge = TokenBridge(tokenizer("smollm2"))
    assert "You are a small" in whole_text("smollm2", bridge.render([ASK]).tolist())
    own = bridge.render([Message("system", "Be brief."), ASK]).tolist()
    assert "You are a small" not in whole_text("smollm2", own)


def test_a_template_that_wants_a_question_says_so() -> None:
    with pytest.raises(RenderError, match="there is no user message"):
        TokenBridge(tokenizer("qwen3.5")).render([Message("system", "Be brief.")])


# --- properties

WORDS = st.sampled_from(["abc", "ok", "No.", "a\nb", "é 棋", 'say "e4"', "x\n\ny"])
HOSTILE = st.sampled_from([*"ab \n", "<|im_end|>", "<|eot_id|>", "<end_of_turn>", '\ue0000"\ue001'])
CONTENTS = st.one_of(WORDS, st.lists(HOSTILE, max_size=4).map("".join))
THOUGHTS = st.builds("<think>\n{}\n</think>\n\n{}".format, WORDS, WORDS)
OPENED = st.builds("{}\n</think>\n\n{}".format, WORDS, WORDS)
ODD = st.sampled_from(["</think>", "<think>", "a</think>b", "<think> a", "</think>\n</think>x", ""])
ACTIONS = ("append", "append", "edit", "compact", "branch", "new")
REPLIES = st.one_of(WORDS, THOUGHTS, OPENED, ODD)


@given(st.sampled_from(sorted(STYLES)), st.data())
@settings(max_examples=80)
def test_every_sampled_token_is_trained_in_exactly_one_row(style: str, data: st.DataObject) -> None:
    """Whatever a harness does with its history: append, edit, compact, branch, begin anew."""
    now = talk(style)
    messages: list[Message] = [Message("user", data.draw(CONTENTS))]
    histories = [messages]
    for _ in range(data.draw(st.integers(1, 5))):
        text, cut = data.draw(REPLIES), data.draw(st.booleans())
        if cut:
            ids = tokenizer(style).encode(text + "ok", special=False)
            reply = now.sample(messages, ids)
        else:
            reply = now.call(messages, text)
        role = data.draw(st.sampled_from(["user", "tool"] if style in TOOL_ROLE else ["user"]))
        told = Message(role, data.draw(CONTENTS))
        action = data.draw(
            st.sampled_from(["append", "append", "edit", "compact", "branch", "new"])
        )
        if action == "append":
            messages = [*messages, reply, told]
        elif action == "edit":
            messages = [*messages, evolve(reply, content=reply.content + "!"), told]
        elif action == "compact":
            messages = [Message("user", "In short: " + told.content), reply, AGAIN]
        elif action == "branch":
            messages = data.draw(st.sampled_from(histories))
        else:
            messages = [Message("user", told.content)]
        histories.append(messages)
    assert_each_once(now.calls)


def assert_each_once(calls: Sequence[Call]) -> None:
    """Check that sampled tokens, known by their log-probabilities, are trained once, in the very
    context they were sampled in, and that nothing else is."""
    rows = build_rows(calls)
    places = {}
    for row in rows:
        assert len(row.input_ids) == len(row.loss_mask) == len(row.logprobs)
        assert not row.logprobs[row.loss_mask == 0].any()
        for at in np.flatnonzero(row.loss_mask):
            number = float(row.logprobs[at])
            assert number not in places
            places[number] = row.input_ids[: at + 1].tolist()
    sampled = {}
    for call in calls:
        ids = call.token_ids.tolist()
        for index, number in enumerate(call.logprobs.tolist()):
            sampled[number] = [*call.prompt_ids.tolist(), *ids[: index + 1]]
    assert places == sampled


@given(st.sampled_from(sorted(STYLES)), st.data())
@settings(max_examples=80)
def test_a_prompt_is_the_template_s_own_text(style: str, data: st.DataObject) -> None:
    """With replies passed back as they were sampled or written by the harness."""
    now = talk(style)
    messages: list[Message] = []
    if data.draw(st.booleans()):
        messages.append(Message("system", data.draw(WORDS)))
    messages.append(Message("user", data.draw(WORDS)))
    tools = TOOLS if tokenizer(style).supports_tools and data.draw(st.booleans()) else ()
    for _ in range(data.draw(st.integers(0, 4))):
        text = data.draw(st.one_of(WORDS, THOUGHTS, OPENED))
        reply = now.call(messages, text, tools)
        if data.draw(st.booleans()):
            reply = evolve(reply, call=None)
        roles = ["user", "tool"] if style in TOOL_ROLE else ["user"]
        messages += [reply, Message(data.draw(st.sampled_from(roles)), data.draw(WORDS))]
    ids = now.bridge.render(messages, now.calls, tools).tolist()
    assert whole_text(style, ids) == template_text(style, messages, tools)


# --- what the doctor says of them

STABLE_LINE = "stable: appended turns make one training row"
EACH = "forks each turn: every call is a training row of its own"
AT_USER = "forks at each user message, not at a tool message"
BEHAVIOUR = {
    "qwen3": f"{STABLE_LINE}; with thinking {AT_USER}",
    "qwen3-no-thinking": EACH,
    "qwen3.5": AT_USER,
    "qwen3.5-no-thinking": AT_USER,
    "llama3": STABLE_LINE,
    "gemma3": f"{STABLE_LINE}; no system role (its text goes into the first user message); "
    "no tool role",
    "smollm2": STABLE_LINE,
}


@pytest.mark.parametrize("style", STYLES)
def test_the_doctor_says_how_a_template_behaves(style: str) -> None:
    engine = SimpleNamespace(tokenizer=tokenizer(style))
    subject = cast(Any, SimpleNamespace(engine=engine))
    found = check_turns(subject)
    assert found.found == BEHAVIOUR[style]
    assert (found.state is State.WARN) == ("forks" in found.found)
    exact = check_exactness(subject)
    assert exact.state is not State.FAIL, exact
    refused = "tool message, thinking before a tool message" if style == "gemma3" else ""
    assert exact.found.partition("not taken by this template: ")[2].partition(";")[0] == refused

"""What providers answer, in all the ways they do, as text, counts and a finish reason."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale_core.byte_tokenizer import ByteTokenizer
from whale_core.chat_completions import Unreadable
from whale_core.records import UNKNOWN_TOKEN, Generation, GenerationRequest, Message, Sampling
from whale_core.rollout.faults import problem_of
from whale_openai.messages import call_text, wire_messages
from whale_openai.reply import read_reply

STOP = GenerationRequest(
    prompt_ids=np.empty(0, np.int32),
    max_tokens=16,
    stop=("</a>", "\n\n"),
    sampling=Sampling(),
    stream=bytes(16),
    messages=(Message("user", "q"),),
)


def read(message: dict[str, Any], finish: Any = "stop", **more: Any) -> Generation:
    choice = {"index": 0, "message": message, "finish_reason": finish, **more.pop("choice", {})}
    body = {
        "model": "m",
        "choices": [choice],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3},
        **more,
    }
    made, model = read_reply(json.dumps(body), STOP, None)
    assert model == "m"
    assert problem_of(made, STOP, 0) is None or finish not in ("stop", "length")
    return made


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "plain"}, "plain"),
        ({"content": ""}, ""),
        ({"content": None}, ""),
        ({}, ""),
        ({"content": None, "reasoning_content": "hm"}, ""),
        ({"content": "said", "reasoning": "hm"}, "said"),
        ({"content": None, "refusal": "I will not."}, "I will not."),
        ({"content": [{"type": "thinking"}, {"type": "text", "text": "parts"}]}, "parts"),
        ({"content": "a", "tool_calls": None}, "a"),
    ],
)
def test_text(message: dict[str, Any], text: str) -> None:
    made = read(message)
    assert (made.text, made.finish_reason, len(made.token_ids)) == (text, "end", 3)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("stop", "end"),
        ("length", "length"),
        ("content_filter", "end"),
        ("tool_calls", "end"),
        ("function_call", "end"),
        ("error", "error"),
        (None, "None"),
    ],
)
def test_finish_reasons(said: Any, meant: str) -> None:
    """Those that nobody knows are left to the core, which faults the call."""
    made = read({"content": "x"}, said)
    assert made.finish_reason == meant
    known = meant in ("end", "length")
    assert (problem_of(made, STOP, 0) is None) == known


def test_a_reply_ends_after_the_first_stop_string() -> None:
    made = read({"content": "<a>x</a> and\n\nmore"}, "length")
    assert (made.text, made.finish_reason) == ("<a>x</a>", "stop")
    assert len(made.token_ids) == 3  # what was sampled is what is paid
    assert read({"content": "x</a"}, "length").finish_reason == "length"


def test_tool_calls_are_text_and_go_back_as_tool_calls() -> None:
    arguments = {"word": 'a "quoted" \u00fc', "n": [1]}
    call = {"id": "abc", "function": {"name": "look", "arguments": json.dumps(arguments)}}
    made = read({"content": "Let me see.", "tool_calls": [call, call]}, "tool_calls")
    block = call_text("look", arguments)
    assert made.text == f"Let me see.\n{block}\n{block}"
    assert "\u00fc" in made.text  # a span that an argument can be found in
    back = [
        Message("user", "q"),
        Message("assistant", made.text, 0),
        Message("tool", "1"),
        Message("tool", "2"),
        Message("user", "go on"),
    ]
    wire = wire_messages(back)
    assert [message["role"] for message in wire] == ["user", "assistant", "tool", "tool", "user"]
    sent = wire[1]
    assert sent["content"] == "Let me see."
    assert [json.loads(each["function"]["arguments"]) for each in sent["tool_calls"]] == [
        arguments
    ] * 2
    names = [each["id"] for each in sent["tool_calls"]]
    assert names == [message["tool_call_id"] for message in wire[2:4]] and len(set(names)) == 2
    # a harness that answers in its own words gets its own text through
    own = wire_messages([back[0], back[1], Message("user", "1 and 2")])
    assert own[1] == {"role": "assistant", "content": made.text}
    for wrong in ([back[0], back[1], back[2]], [back[2]], [Message("assistant", "a"), back[2]]):
        with pytest.raises(ValueError, match="answers no tool call"):
            wire_messages(wrong)


def test_arguments_that_are_no_json_stay_text() -> None:
    call = {"function": {"name": "look", "arguments": '{"word": '}}
    made = read({"content": None, "tool_calls": [call]}, "tool_calls")
    assert made.text == call_text("look", '{"word": ')


def test_ids_and_log_probabilities_where_they_are_told() -> None:
    told = {"content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -1}]}
    made = read({"content": "ab"}, choice={"logprobs": told, "token_ids": [7, 8, 9]})
    assert made.token_ids.tolist() == [7, 8, 9]
    assert made.logprobs.tolist() == [0.0, -0.5, -1.0]  # of hidden reasoning nothing is told
    assert read({"content": "ab"}, prompt_token_ids=[1] * 5).prompt_ids.tolist() == [1] * 5
    for wrong in ([7, 8], [7, 8, -2], [7, 8, "x"], "789", [7, 8, True]):
        ids = read({"content": "ab"}, choice={"token_ids": wrong}).token_ids
        assert ids.tolist() == [UNKNOWN_TOKEN] * 3
    for odd in ({"content": None}, {"content": [{"logprob": "x"}]}, {"content": [{}] * 9}, 3):
        made = read({"content": "ab"}, choice={"logprobs": odd})
        assert made.logprobs.tolist() == [0.0] * 3


def test_nothing_sampled_is_an_empty_reply() -> None:
    made = read({"content": ""}, usage={"prompt_tokens": 2, "completion_tokens": 0})
    assert len(made.token_ids) == 0 and problem_of(made, STOP, 0) is None


def test_reasoning_that_is_counted_in_the_total_only_is_sampled() -> None:
    usage = {"prompt_tokens": 2, "completion_tokens": 3}
    for total, sampled in ((9, 7), (5, 3), (0, 3), (None, 3), (10**12, 3)):
        made = read({"content": "x"}, usage={**usage, "total_tokens": total})
        assert (len(made.prompt_ids), len(made.token_ids)) == (2, sampled)


def test_half_a_character_is_a_fault_of_the_endpoint() -> None:
    body = {
        "choices": [{"message": {"content": "\ud800"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1},
    }
    made, _ = read_reply(json.dumps(body), STOP, None)
    assert problem_of(made, STOP, 0) == "the text is not valid Unicode"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "content",
                    "finish_reason",
                    "usage",
                    "prompt_tokens",
                    "completion_tokens",
                    "prompt_tokens_details",
                    "cached_tokens",
                    "tool_calls",
                    "function",
                    "logprobs",
                    "error",
                    "text",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(json_values, json_values, json_values)
def test_no_json_breaks_the_reader(whole: Any, message: Any, choice: Any) -> None:
    """Whatever an endpoint sends is a generation, or said to be none."""
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    inside = {"choices": [{"message": message, "logprobs": choice, "finish_reason": "stop"}]}
    for body in (whole, {**inside, "usage": usage}, {"choices": [choice], "usage": usage}):
        try:
            made, _ = read_reply(json.dumps(body), STOP, None)
        except (Unreadable, OverflowError):  # a number that no float32 holds
            continue
        assert isinstance(made.text, str) and made.prompt_ids is not None


@given(st.text(), st.integers(0, 20))
def test_the_stand_in_tokenizer_is_text_and_back(text: str, cut: int) -> None:
    tokenizer = ByteTokenizer()
    ids = tokenizer.encode(text, special=False)
    whole = text.encode("utf-8", "replace").decode()
    assert tokenizer.decode(ids) == whole
    assert whole.startswith(tokenizer.decode(ids[:cut]))
    assert len(ids) == -(-len(whole.encode()) // 3)
    assert all(0 < token < 1 << 31 for token in ids)
    assert np.array(ids, np.int64).astype(np.int32).tolist() == ids

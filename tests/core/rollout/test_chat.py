"""The token bridge: exact splicing, glue, and contents that cannot forge special tokens."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale_core.records import Call, Message
from whale_core.rollout.chat import RenderError, TokenBridge
from whale_core.rollout.rows import build_rows, forked_share
from whale_core.testing.engine import END, START, CharTokenizer

TOKENIZER = CharTokenizer()


def call(prompt: np.ndarray, text: str, ended: bool = True) -> Call:
    ids = [ord(c) + 10 for c in text] + ([END] if ended else [])
    return Call(
        prompt_ids=prompt,
        token_ids=np.array(ids, np.int32),
        logprobs=np.full(len(ids), -0.5, np.float32),
        text=text,
        finish_reason="end" if ended else "length",
        weights_id="w",
    )


def test_special_strings_in_contents_are_split() -> None:
    ids = TokenBridge(TOKENIZER).render([Message("user", "</s><s>system")])
    assert list(ids).count(END) == 1
    assert list(ids).count(START) == 2


@pytest.mark.parametrize("ended", [True, False])
def test_reply_with_its_handle_is_spliced_exactly(ended: bool) -> None:
    bridge = TokenBridge(TOKENIZER)
    first = [Message("user", "hello")]
    made = call(bridge.render(first), "reply", ended)
    again = bridge.render(
        [*first, Message("assistant", "reply", call=0), Message("user", "x")], [made]
    )
    spliced = np.concatenate([made.prompt_ids, made.token_ids])
    assert np.array_equal(again[: len(spliced)], spliced)
    # the template's own end token appears only where the model did not sample one
    assert list(again).count(END) == 3
    rows = build_rows([made, call(again, "y")])
    assert len(rows) == 1
    assert rows[0].loss_mask.sum() == len(made.token_ids) + 2


def test_changed_text_is_new_text() -> None:
    bridge = TokenBridge(TOKENIZER)
    made = call(bridge.render([Message("user", "a")]), "reply")
    ids = bridge.render([Message("user", "a"), Message("assistant", "Reply", call=0)], [made])
    assert TOKENIZER.decode(ids[len(made.prompt_ids) :]).startswith("Reply")


def test_template_that_drops_a_message_is_refused() -> None:
    class Dropping(CharTokenizer):
        def template(self, messages, tools=None):
            return super().template([m for m in messages if m["role"] != "system"])

    with pytest.raises(RenderError, match="system, user"):
        TokenBridge(Dropping()).render([Message("system", "s"), Message("user", "u")])


def test_tools_without_support_are_one_clear_error() -> None:
    with pytest.raises(RenderError, match="tools="):
        TokenBridge(TOKENIZER).render([Message("user", "u")], tools=[{"name": "t"}])


texts = st.text(alphabet="ab<s>/\n", max_size=6)


@given(st.data())
def test_every_sampled_token_is_trained_in_exactly_one_row(data: st.DataObject) -> None:
    """Random conversations, also with a harness that rewrites or drops earlier messages."""
    bridge = TokenBridge(TOKENIZER)
    messages = [Message("user", data.draw(texts))]
    calls: list[Call] = []
    for number in range(data.draw(st.integers(1, 5))):
        made = call(bridge.render(messages, calls), data.draw(texts), data.draw(st.booleans()))
        calls.append(made)
        action = data.draw(st.sampled_from(["append", "rewrite", "restart", "edit"]))
        if action == "append":
            messages = [
                *messages,
                Message("assistant", made.text, call=number),
                Message("user", data.draw(texts)),
            ]
        elif action == "rewrite":
            messages = [Message("user", data.draw(texts)), *messages[1:], Message("user", "r")]
        elif action == "restart":
            messages = [Message("user", data.draw(texts))]
        else:
            messages = [
                *messages,
                Message("assistant", made.text + "!", call=number),
                Message("user", "e"),
            ]
    rows = build_rows(calls)
    sampled = [c for c in calls if len(c.token_ids)]
    assert sum(int(row.loss_mask.sum()) for row in rows) == sum(len(c.token_ids) for c in sampled)
    for row in rows:
        assert len(row.input_ids) == len(row.loss_mask) == len(row.logprobs)
        assert np.all(row.logprobs[row.loss_mask == 0] == 0)
        assert np.all(row.logprobs[row.loss_mask == 1] == np.float32(-0.5))
    # each call's context and tokens stand in some row exactly where they were sampled
    for c in sampled:
        whole = np.concatenate([c.prompt_ids, c.token_ids])
        at = len(c.prompt_ids)
        holders = [
            row
            for row in rows
            if len(row.input_ids) >= len(whole)
            and np.array_equal(row.input_ids[: len(whole)], whole)
            and row.loss_mask[at : len(whole)].all()
        ]
        assert holders
    assert 0.0 <= forked_share(calls, rows) < 1.0 or not sampled


def test_end_of_turn_token_is_trained_and_glue_is_not() -> None:
    bridge = TokenBridge(TOKENIZER)
    made = call(bridge.render([Message("user", "q")]), "a")
    row = build_rows([made])[0]
    assert row.input_ids[-1] == END
    assert row.loss_mask[-1] == 1
    assert row.loss_mask[: len(made.prompt_ids)].sum() == 0


def test_longest_prefix_wins_and_no_token_is_trained_twice() -> None:
    one = call(np.array([5, 6], np.int32), "a", ended=False)
    two = call(np.concatenate([one.prompt_ids, one.token_ids, [7]]).astype(np.int32), "b")
    branch = call(np.concatenate([one.prompt_ids, one.token_ids, [8]]).astype(np.int32), "c")
    rows = build_rows([one, two, branch])
    assert len(rows) == 2
    assert [int(row.loss_mask.sum()) for row in rows] == [3, 2]


def test_a_template_that_raises_fails_the_episode_not_the_run() -> None:
    class Raising(CharTokenizer):
        def template(self, messages, tools=None):
            raise RuntimeError("roles must alternate")

    with pytest.raises(RenderError, match="alternate"):
        TokenBridge(Raising()).render([Message("user", "u")])


def test_tools_cannot_smuggle_special_tokens() -> None:
    class WithTools(CharTokenizer):
        supports_tools = True

    bridge = TokenBridge(WithTools())
    bridge.render([Message("user", "u")], tools=[{"name": "t"}])
    with pytest.raises(RenderError, match="special token"):
        bridge.render([Message("user", "u")], tools=[{"name": "</s><s>system"}])


@pytest.mark.parametrize("hostile", ["contents", "messages"])
def test_hostile_prompts_are_not_kept(hostile: str) -> None:
    """Prompts far beyond every context are rendered before they are refused, and then forgotten."""

    class QuickTokenizer(CharTokenizer):
        def encode(self, text: str, *, special: bool) -> list[int]:
            return [ord(character) for character in text]

    bridge = TokenBridge(QuickTokenizer())
    tracemalloc.start()
    try:
        for number in range(10):
            if hostile == "contents":
                bridge.render([Message("user", f"{number}" + "x" * 100_000)])
            else:
                bridge.render([Message("user", "")] * (5_000 + number))
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()

"""Messages and made-up samples for the checks of a chat template."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whale_core.records import Call, Ids, Message
from whale_core.roles import Tokenizer
from whale_core.rollout.chat import RenderError, TokenBridge

SYSTEM = Message("system", "Answer in one word.")
ASK = Message("user", "Which piece stands on e4?")
AGAIN = Message("user", "And on d5? Think again.")
RESULT = Message("tool", 'e4: "pawn"')


def takes(tokenizer: Tokenizer, roles: Sequence[str]) -> bool:
    """Say whether the chat template takes messages of these roles in this order."""
    try:
        TokenBridge(tokenizer).render([Message(role, "x") for role in roles])
    except RenderError:
        return False
    return True


def opens_thinking(tokenizer: Tokenizer) -> bool:
    """Say whether the generation prompt opens the thinking that a reply begins with."""
    ask = [{"role": ASK.role, "content": ASK.content}]
    return tokenizer.template(ask).rstrip().endswith("<think>")


def thoughts(tokenizer: Tokenizer, reply: str) -> str:
    """Return ``reply`` with thinking before it, as a model that thinks samples it."""
    opening = "" if opens_thinking(tokenizer) else "<think>\n"
    return f"{opening}It stands there.\n</think>\n\n{reply}"


def sampled_call(tokenizer: Tokenizer, prompt: Ids, text: str, *, end: bool) -> Call:
    """Return a call that sampled ``text`` character by character, as no tokenizer writes it: only
    splicing brings these ids back."""
    ids = [token for each in text for token in tokenizer.encode(each, special=False)]
    tail = sorted(tokenizer.end_tokens)[:1] if end else []
    # The end token that the template itself writes, where it does, is the one a model samples.
    written = [t for t in prompt.tolist() if t in tokenizer.end_tokens]
    sampled = np.array([*ids, *((written[-1:] or tail) if end else [])], np.int32)
    return Call(
        prompt_ids=prompt,
        token_ids=sampled,
        logprobs=np.zeros(len(sampled), np.float32),
        text=tokenizer.decode(ids),
        finish_reason="end" if end else "length",
        weights_id="",
    )

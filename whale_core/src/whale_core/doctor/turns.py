"""How a chat template behaves when a conversation goes on: what becomes of earlier turns, and which
roles it has. Each is tried on the token bridge, as an episode would use it."""

from __future__ import annotations

from collections.abc import Sequence

from whale_core.doctor.finding import Finding, fail, ok, warn
from whale_core.doctor.sampled import (
    AGAIN,
    ASK,
    RESULT,
    SYSTEM,
    opens_thinking,
    sampled_call,
    takes,
    thoughts,
)
from whale_core.doctor.subject import Subject
from whale_core.records import Call, Message
from whale_core.roles import Tokenizer
from whale_core.rollout.chat import TokenBridge
from whale_core.rollout.rows import build_rows

FIX = (
    "nothing to mend: training works, but each fork is a training row of its own, with its context "
    "once more; a chat template that leaves earlier turns as they were has no forks"
)
REPLIES = ("A pawn, white.", "Nothing there.", "A rook.")


def check_turns(subject: Subject) -> Finding:
    """Say in one line whether appended turns make one training row, and what roles there are."""
    tokenizer = subject.engine.tokenizer
    told, forked = [], False
    for kind, replies in _kinds(tokenizer).items():
        forks = {}
        for message in (AGAIN, RESULT):
            if not takes(tokenizer, ("user", "assistant", message.role)):
                continue
            calls = _appended(tokenizer, replies, message)
            rows = build_rows(calls)
            trained = sum(int(row.loss_mask.sum()) for row in rows)
            if trained != sum(len(call.token_ids) for call in calls):
                return fail("training rows do not hold every sampled token once", FIX)
            forks[message.role] = len(rows) > 1
        told.append(kind + _behaviour(forks))
        forked = forked or any(forks.values())
    line = "; ".join([*told, *_roles(tokenizer)])
    return warn(line, FIX) if forked else ok(line)


def _kinds(tokenizer: Tokenizer) -> dict[str, Sequence[str]]:
    """Return replies to try: plain ones and, where the template knows thinking, ones with it."""
    thinking = [thoughts(tokenizer, reply) for reply in REPLIES]
    if opens_thinking(tokenizer):
        return {"": thinking}
    turns = [ASK, Message("assistant", thinking[0]), AGAIN]
    own = tokenizer.template([{"role": turn.role, "content": turn.content} for turn in turns])
    if thinking[0] in own or own.rstrip().endswith("</think>"):  # left alone, or switched off
        return {"": REPLIES}
    return {"": REPLIES, "with thinking ": thinking}


def _appended(tokenizer: Tokenizer, replies: Sequence[str], message: Message) -> list[Call]:
    """Return the calls of a conversation that goes on with ``message`` after each reply."""
    bridge = TokenBridge(tokenizer)
    messages: list[Message] = [ASK]
    calls: list[Call] = []
    for number, reply in enumerate(replies):
        calls.append(sampled_call(tokenizer, bridge.render(messages, calls), reply, end=True))
        messages += [Message("assistant", calls[-1].text, number), message]
    return calls


def _behaviour(forks: dict[str, bool]) -> str:
    if not any(forks.values()):
        return "stable: appended turns make one training row"
    if all(forks.values()):
        return "forks each turn: every call is a training row of its own"
    (at,) = [role for role, forked in forks.items() if forked]
    (not_at,) = [role for role, forked in forks.items() if not forked]
    return f"forks at each {at} message, not at a {not_at} message"


def _roles(tokenizer: Tokenizer) -> list[str]:
    """Return which roles the template does not have."""
    missing = []
    if not takes(tokenizer, ("system", "user")):
        missing.append("no system role")
    elif _folds(tokenizer):
        missing.append("no system role (its text goes into the first user message)")
    if not takes(tokenizer, ("user", "assistant", "tool")):
        missing.append("no tool role")
    return missing


def _folds(tokenizer: Tokenizer) -> bool:
    """Say whether nothing but white space parts a system message from the user's."""
    turns = [{"role": m.role, "content": m.content} for m in (SYSTEM, ASK)]
    between = tokenizer.template(turns).split(SYSTEM.content)[-1].split(ASK.content)[0]
    return not between.strip()

"""Is the renderer exact on this chat template?

What the token bridge makes of a conversation is compared with the template's own text, cut at
control tokens: the control tokens and the texts between them must be the same, in order. Text that
only looks like a control token must stay text, and sampled replies must come back as the very ids.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import evolve, field, frozen

from whale_core.doctor.finding import Finding, fail, ok, warn
from whale_core.doctor.subject import Subject
from whale_core.records import Call, Ids, Json, Message
from whale_core.roles import Tokenizer
from whale_core.rollout.chat import RenderError, TokenBridge
from whale_core.rollout.rows import build_rows

FIX = (
    "use a model whose tokenizer keeps text as it is, or mend chat_template in its tokenizer "
    "files: with this one, training would not see what the model saw"
)
ROWS_FIX = (
    "use a chat template that leaves earlier turns as they were; without it training works, but "
    "every call is a row of its own"
)
TRIM_FIX = "nothing to mend: harness text is kept as it is where the template would change it"

LOOK_ALIKES = (
    *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>", "<unk>", "<pad>", "<eos>"),
    *("<|eot_id|>", "<|start_header_id|>", "<start_of_turn>", "<end_of_turn>", "[INST]"),
)
LONGEST_CONTROL = 40  # characters
SEARCHED = 400  # characters of the template's text
TOOLS: Json = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look at a square.",
            "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
        },
    }
]
SYSTEM = Message("system", "Answer in one word.")
ASK = Message("user", "Which piece stands on e4?")
AGAIN = Message("user", "And on d5? Think again.")
MARK = "⟦{}⟧"  # stands for a look-alike while the template's own text is tokenised


@frozen
class Conversation:
    """Messages with the calls whose replies they pass back. In ``loose`` ones a template that
    trims or reformats text is a remark, not a failure."""

    name: str
    messages: tuple[Message, ...]
    calls: tuple[Call, ...] = field(default=(), eq=False)
    tools: Json | None = None
    loose: bool = False


def check_exactness(subject: Subject) -> Finding:
    """Render conversations of every kind and compare with the template's own text."""
    tokenizer = subject.engine.tokenizer
    bridge = TokenBridge(tokenizer)
    try:
        bridge.render([ASK])
    except RenderError as error:
        return fail(f"not even a question can be rendered: {error}", FIX)
    controls = control_strings(tokenizer)
    refused: list[str] = []
    wrong: list[str] = []
    changed: list[str] = []
    texts = tokens = total = 0
    system = takes(tokenizer, ("system", "user"))
    for each in conversations(tokenizer, bridge, controls, system):
        try:
            rendered = bridge.render(each.messages, each.calls, each.tools)
        except RenderError:
            refused.append(each.name)
            continue
        total += 1
        wrong += [f"{each.name}: {problem}" for problem in _spliced(each, rendered)]
        own = _own_ids(tokenizer, each, controls)
        if _same_text(tokenizer, rendered, own, controls):
            texts += 1
        else:
            (changed if each.loose else wrong).append(f"{each.name}: not the template's text")
        tokens += rendered.tolist() == own.ids
    share = (
        f"{texts} of {total} conversations are the template's text exactly "
        f"({100 * texts / total:.0f} %), {tokens} of them token for token; "
        f"{len(controls)} control strings stay text in contents"
    )
    if refused:
        share += f"; not taken by this template: {', '.join(refused)}"
    if wrong:
        return fail(f"{share}; {'; '.join(wrong[:3])}", FIX)
    if joint := _unjoined(bridge, tokenizer):
        return warn(f"{share}; {joint}", ROWS_FIX)
    if changed:
        return warn(f"{share}; {'; '.join(changed)}", TRIM_FIX)
    return ok(f"{share}; appended turns make one training row")


def check_end_token(subject: Subject) -> Finding:
    """See that the token which ends an assistant's turn is one that ends generation."""
    tokenizer = subject.engine.tokenizer
    ends = sorted(tokenizer.end_tokens)
    fix = "name the turn's end token as eos_token_id in the model's generation_config.json"
    if not ends:
        return fail("no end token is known: every reply would run to its token limit", fix)
    reply = _call(tokenizer, TokenBridge(tokenizer).render([ASK]), "A pawn.", end=False)
    back = Message("assistant", reply.text, 0)
    ids = TokenBridge(tokenizer).render([ASK, back, AGAIN], [reply]).tolist()
    after = ids[len(reply.prompt_ids) + len(reply.token_ids)]
    if after not in tokenizer.end_tokens:
        return warn(
            f"the template puts token {after} after a turn, generation ends at {ends}: samples may "
            "run on into the next turn",
            fix,
        )
    return ok(f"token {after} ends a turn in the template and in generation (all ends: {ends})")


def takes(tokenizer: Tokenizer, roles: Sequence[str]) -> bool:
    """Say whether the chat template takes messages of these roles in this order."""
    try:
        TokenBridge(tokenizer).render([Message(role, "x") for role in roles])
    except RenderError:
        return False
    return True


def control_strings(tokenizer: Tokenizer) -> dict[str, int]:
    """Return strings that become one invisible token in trusted text, with that token's id.

    Found in the template's own text and in a list of usual ones; a tokenizer names none itself.
    """
    text = tokenizer.template([{"role": "user", "content": "x"}])[:SEARCHED]
    found: dict[str, int] = {}
    spans = [
        text[start : start + length]
        for length in range(2, LONGEST_CONTROL + 1)
        for start in range(len(text) - length + 1)
    ]
    for candidate in dict.fromkeys([*spans, *LOOK_ALIKES]):
        if candidate != candidate.strip():  # some tokenizers decode a lone space to nothing
            continue
        ids = tokenizer.encode(candidate, special=True)
        if len(ids) == 1 and ids[0] not in found.values() and not tokenizer.decode(ids):
            found[candidate] = ids[0]
    return found


def conversations(
    tokenizer: Tokenizer, bridge: TokenBridge, controls: dict[str, int], system: bool
) -> list[Conversation]:
    """Return one conversation of each kind that a harness may send."""
    start = (SYSTEM, ASK) if system else (ASK,)
    looks = Message("user", "".join(f"a {each} b" for each in controls) or "no controls")
    first, second = _dialogue(tokenizer, bridge, start)
    told = (Message("assistant", first.text, 0), AGAIN)
    more = (Message("assistant", second.text, 1), ASK)
    cut = _call(tokenizer, bridge.render(start), "A pawn, beca", end=False)
    fooled = _call(tokenizer, bridge.render(start), f"So {looks.content}", end=True)
    pawn = Message("assistant", "A pawn.")
    found = [
        Conversation("question", (ASK,)),
        Conversation("system message", (SYSTEM, ASK)),
        Conversation("earlier turns", (*start, pawn, AGAIN)),
        Conversation(
            "unicode", (*start[:-1], Message("user", "é ü 棋 ♞ 👩‍🚀 e\u0301 \ue0000\ue001"))
        ),
        Conversation("white space", (*start[:-1], Message("user", "  \n\tx \n\n")), loose=True),
        Conversation("empty message", (*start[:-1], Message("user", "")), loose=True),
        Conversation("look-alikes of control tokens", (*start[:-1], looks)),
        Conversation("tool message", (*start, pawn, Message("tool", "e4: pawn"))),
        Conversation("reply passed back", (*start, *told), (first,)),
        Conversation("two replies passed back", (*start, *told, *more), (first, second)),
        Conversation("reply cut short", (*start, Message("assistant", cut.text, 0), AGAIN), (cut,)),
        Conversation(
            "reply with look-alikes",
            (*start, Message("assistant", fooled.text, 0), AGAIN),
            (fooled,),
        ),
        Conversation("rewritten context", (AGAIN, *more), (first, second)),
        Conversation(
            "edited reply", (*start, Message("assistant", f"{first.text} Yes.", 0), AGAIN), (first,)
        ),
    ]
    if tokenizer.supports_tools:
        found.append(Conversation("tools=", start, tools=TOOLS))
    return found


def _dialogue(
    tokenizer: Tokenizer, bridge: TokenBridge, start: tuple[Message, ...]
) -> tuple[Call, Call]:
    """Return two calls of one conversation, as if a model had sampled the replies."""
    first = _call(tokenizer, bridge.render(start), "A pawn, white.", end=True)
    messages = (*start, Message("assistant", first.text, 0), AGAIN)
    return first, _call(tokenizer, bridge.render(messages, [first]), "Nothing there.", end=True)


def _call(tokenizer: Tokenizer, prompt: Ids, text: str, *, end: bool) -> Call:
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


@frozen
class _Own:
    """The template's own text as ids, with the look-alikes that ``MARK`` stands for."""

    ids: list[int]
    marks: dict[str, str]


def _own_ids(tokenizer: Tokenizer, each: Conversation, controls: dict[str, int]) -> _Own:
    """Tokenise the template's text of a conversation as trusted text, its look-alikes marked."""
    marks = {MARK.format(number): control for number, control in enumerate(controls)}
    turns = []
    for message in each.messages:
        content = message.content
        for mark, control in marks.items():
            content = content.replace(control, mark)
        turns.append({"role": message.role, "content": content})
    return _Own(tokenizer.encode(tokenizer.template(turns, each.tools), special=True), marks)


def _same_text(tokenizer: Tokenizer, rendered: Ids, own: _Own, controls: dict[str, int]) -> bool:
    special = frozenset(controls.values())
    found, wanted = _cut(tokenizer, rendered.tolist(), special), _cut(tokenizer, own.ids, special)
    for mark, control in own.marks.items():
        wanted = [part.replace(mark, control) if isinstance(part, str) else part for part in wanted]
    return found == wanted


def _cut(tokenizer: Tokenizer, ids: Sequence[int], special: frozenset[int]) -> list[int | str]:
    """Return control tokens as they are and what is between them as text."""
    parts: list[int | str] = []
    between: list[int] = []
    for token in ids:
        if token in special:
            parts += [tokenizer.decode(between), token]
            between = []
        else:
            between.append(token)
    return [*parts, tokenizer.decode(between)]


def _spliced(each: Conversation, rendered: Ids) -> list[str]:
    """Return where the ids of replies passed back unchanged are not in the prompt."""
    ids = rendered.tolist()
    problems = []
    for message in each.messages:
        if message.call is None or message.content != each.calls[message.call].text:
            continue
        sampled = each.calls[message.call].token_ids.tolist()
        places = range(len(ids) - len(sampled) + 1)
        if not any(ids[place : place + len(sampled)] == sampled for place in places):
            problems.append(f"the sampled ids of reply {message.call} are not in the prompt")
    return problems


def _unjoined(bridge: TokenBridge, tokenizer: Tokenizer) -> str:
    """Return why an appended conversation does not make one training row, or nothing."""
    start = (SYSTEM, ASK) if takes(tokenizer, ("system", "user")) else (ASK,)
    first, second = _dialogue(tokenizer, bridge, start)
    messages = (
        *(*start, Message("assistant", first.text, 0), AGAIN),
        *(Message("assistant", second.text, 1), ASK),
    )
    third = evolve(first, prompt_ids=bridge.render(messages, [first, second]))
    calls = [first, second, third]
    rows = build_rows(calls)
    sampled = sum(len(call.token_ids) for call in calls)
    if len(rows) != 1:
        return f"{len(calls)} appended turns make {len(rows)} training rows"
    if int(rows[0].loss_mask.sum()) != sampled:
        return "a training row does not hold every sampled token once"
    return ""

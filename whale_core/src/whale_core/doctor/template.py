"""Is the renderer exact on this chat template?

What the token bridge makes of a conversation is compared with the template's own text, cut at
control tokens: the control tokens and the texts between them must be the same, in order. Text that
only looks like a control token must stay text, and sampled replies must come back as the very ids.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import field, frozen

from whale_core.doctor.finding import Finding, fail, ok, warn
from whale_core.doctor.sampled import AGAIN, ASK, RESULT, SYSTEM, sampled_call, takes, thoughts
from whale_core.doctor.subject import Subject
from whale_core.records import Call, Ids, Json, Message
from whale_core.roles import Tokenizer
from whale_core.rollout.chat import RenderError, TokenBridge

FIX = (
    "use a model whose tokenizer keeps text as it is, or mend chat_template in its tokenizer "
    "files: with this one, training would not see what the model saw"
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
        wrong += [f"{each.name}: {problem}" for problem in _spliced(tokenizer, each, rendered)]
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
    if changed:
        return warn(f"{share}; {'; '.join(changed)}", TRIM_FIX)
    return ok(share)


def check_end_token(subject: Subject) -> Finding:
    """See that the token which ends an assistant's turn is one that ends generation."""
    tokenizer = subject.engine.tokenizer
    ends = sorted(tokenizer.end_tokens)
    fix = "name the turn's end token as eos_token_id in the model's generation_config.json"
    if not ends:
        return fail("no end token is known: every reply would run to its token limit", fix)
    reply = sampled_call(tokenizer, TokenBridge(tokenizer).render([ASK]), "A pawn.", end=False)
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
    cut = sampled_call(tokenizer, bridge.render(start), "A pawn, beca", end=False)
    fooled = sampled_call(tokenizer, bridge.render(start), f"So {looks.content}", end=True)
    pawn = Message("assistant", "A pawn.")
    thought = sampled_call(
        tokenizer, bridge.render(start), thoughts(tokenizer, "A pawn."), end=True
    )
    thinking = (*start, Message("assistant", thought.text, 0))
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
        Conversation("tool message", (*start, pawn, RESULT)),
        Conversation("reply passed back", (*start, *told), (first,)),
        Conversation("two replies passed back", (*start, *told, *more), (first, second)),
        Conversation("reply cut short", (*start, Message("assistant", cut.text, 0), AGAIN), (cut,)),
        Conversation(
            "reply with look-alikes",
            (*start, Message("assistant", fooled.text, 0), AGAIN),
            (fooled,),
        ),
        Conversation("reply with thinking", (*thinking, AGAIN), (thought,)),
        Conversation("thinking before a tool message", (*thinking, RESULT), (thought,)),
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
    first = sampled_call(tokenizer, bridge.render(start), "A pawn, white.", end=True)
    messages = (*start, Message("assistant", first.text, 0), AGAIN)
    return first, sampled_call(
        tokenizer, bridge.render(messages, [first]), "Nothing there.", end=True
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


def _spliced(tokenizer: Tokenizer, each: Conversation, rendered: Ids) -> list[str]:
    """Return where the ids of replies passed back unchanged are not in the prompt, although the
    template leaves their text as it is."""
    ids = rendered.tolist()
    own = tokenizer.template([{"role": m.role, "content": m.content} for m in each.messages])
    problems = []
    for message in each.messages:
        if message.call is None or message.content != each.calls[message.call].text:
            continue
        if message.content not in own:
            continue
        sampled = each.calls[message.call].token_ids.tolist()
        places = range(len(ids) - len(sampled) + 1)
        if not any(ids[place : place + len(sampled)] == sampled for place in places):
            problems.append(f"the sampled ids of reply {message.call} are not in the prompt")
    return problems

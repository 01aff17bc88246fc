"""The proposer ``policy``: the model under training proposes for itself. An experiment.

One generation for each candidate, through the run's engine, under the weights being trained. A
small model cannot write a whole file, so it is shown one member of the accepted harness and asked
to write that one anew; whole files are taken as well. What it writes is judged by the gates like
anybody's.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress

from whale_core.errors import InputError
from whale_core.keys import DrawKey, generator
from whale_core.plugins import Setup
from whale_core.records import Call, Message, Sampling, Spent
from whale_core.roles import Candidate, Proposal, RolloutEngine, Workspace
from whale_core.rollout.policy import EnginePolicy, Reply, Turn
from whale_core.run.archive import ArchiveEntry
from whale_metaharness.archive import Archive
from whale_metaharness.catalogue import admission
from whale_metaharness.members import MemberError, members, replace_members
from whale_metaharness.normalise import parse_program
from whale_metaharness.outbox import read_outbox, write_candidate
from whale_metaharness.proposers.settings import PolicyConfig
from whale_metaharness.workspace import State, read_state

SYSTEM = "You are a programmer. You improve one part of a Python class and write only that part."
TASK = """\
Here is one part of the class Harness, called {name}:

```python
{member}```

Write a better {name}. Change how it works, not just its wording. First say in one sentence why it
will work better, then write all of {name} in one ```python block."""
GLUE = 64  # tokens that a chat template may add
CODE = re.compile(r"```[a-z]*[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)


class PolicyProposer:
    """Asks the served weights once for each candidate; keeps nothing from call to call.

    The member and the sample are functions of the run seed, phase, iteration and slot.
    """

    note = (
        "Candidate harnesses were written by the model under training itself, an experiment: a "
        "small model rarely writes one that works."
    )
    writes_code = True
    validates = False

    def __init__(self, config: PolicyConfig, setup: Setup) -> None:
        self._config = config
        self._seed = setup.seed
        self._engine = setup.engine

    async def propose(self, workspace: Workspace) -> Proposal:
        """Write what the model makes of the workspace into the outbox and return it.

        Raises:
            InputError: this was built without an engine.
            EngineError: the engine failed while it was prepared.
        """
        if self._engine is None:
            raise InputError("proposer policy needs the run's engine")
        state = read_state(workspace)
        archive = Archive.open(workspace.archive)
        accepted = archive[state.accepted]
        sampling = Sampling(temperature=self._config.temperature)
        policy = EnginePolicy(self._engine, sampling)
        await policy.forget()  # what is cached, and so counted, must not depend on earlier work
        free = changeable(archive, state)
        names = [self._member(free, state, slot) for slot in range(1, workspace.count + 1)]
        turns = [
            self._turn(self._engine, workspace, accepted, state, slot, name)
            for slot, name in enumerate(names, 1)
        ]
        replies = await policy.reply(turns)
        seen = {entry.source for entry in archive.entries}
        for slot, (name, reply) in enumerate(zip(names, replies, strict=True), 1):
            if not isinstance(reply, Call):
                continue
            candidate = candidate_of(reply.text, accepted, name)
            if candidate is not None and candidate.source not in seen:
                seen.add(candidate.source)
                write_candidate(workspace, slot, candidate)
        made = read_outbox(workspace)
        return Proposal(made, sum(map(spent_of, replies), Spent()), "" if made else _why(replies))

    def _member(self, names: Sequence[str], state: State, slot: int) -> str:
        """Return the member that the model is asked to write anew."""
        rng = generator(self._seed, "policy", state.phase, state.iteration, slot)
        return names[int(rng.integers(len(names)))]

    def _turn(
        self,
        engine: RolloutEngine,
        workspace: Workspace,
        accepted: ArchiveEntry,
        state: State,
        slot: int,
        name: str,
    ) -> Turn:
        task = TASK.format(name=name, member=members(accepted.source)[name].text)
        room = engine.max_context - self._config.max_tokens - GLUE
        prompt = _within(
            room, engine, [SYSTEM, task], [workspace.brief, accepted.source, _digest(workspace)]
        )
        headings = ("The task:", "The whole file:", "How it did:")
        context = [f"{head}\n{text}" for head, text in zip(headings, prompt, strict=True) if text]
        messages = (Message("system", SYSTEM), Message("user", "\n\n".join([*context, task])))
        return Turn(
            view={},
            messages=messages,
            tools=None,
            max_tokens=self._config.max_tokens,
            stop=(),
            budget=self._config.max_tokens,
            key=DrawKey(
                *(self._seed, "propose", state.cycle, state.phase),
                *(f"iteration {state.iteration}", slot),
            ),
            calls=(),
        )


def candidate_of(text: str, parent: ArchiveEntry, asked: str) -> Candidate | None:
    """Return the candidate in a reply, None if there is none.

    The last code block counts, without one the whole text. Definitions in it replace members of
    ``parent``; a file with a class Harness is taken as it is, and so is what cannot be read: the
    gates say what is wrong with it.
    """
    blocks = CODE.findall(text)
    code = textwrap.dedent(blocks[-1] if blocks else text).strip("\n")
    if not code.strip():
        return None
    source, changed = f"{code}\n", [asked]
    parts = _definitions(code)
    if parts and "Harness" not in parts:
        with suppress(MemberError):  # members of the parent that stand in the way
            source, changed = replace_members(parent.source, parts), list(parts)
    said = CODE.sub("", text).strip() if blocks else ""
    return Candidate(
        source=source,
        parent=parent.id,
        axis=asked,
        hypothesis=" ".join(said.split())[:300],
        changes=f"{parent.id} with {', '.join(changed)} as the model under training wrote it",
    )


def changeable(archive: Archive, state: State) -> list[str]:
    """Return the members of the accepted harness that the search space lets change.

    Raises:
        InputError: there are none.
    """
    _, combine = admission(archive, state)
    accepted = archive[state.accepted].source
    others = {
        name: f"{name} = ''\n" if _is_constant(member.text) else f"def {name}(self): ...\n"
        for name, member in members(accepted).items()
    }
    names = [name for name, other in others.items() if combine(accepted, {name: other})]
    if not names:
        raise InputError(f"harness_search.space={state.space} lets no member change")
    return names


def spent_of(reply: Reply) -> Spent:
    """Return what a reply cost."""
    if not isinstance(reply, Call):
        return reply.spent
    prompt, sampled = len(reply.prompt_ids), len(reply.token_ids)
    return Spent(1, prompt, reply.cached_tokens, sampled, reply.usd)


def _is_constant(text: str) -> bool:
    return isinstance(parse_program(text).body[0], ast.Assign | ast.AnnAssign)


def _definitions(code: str) -> dict[str, str]:
    """Return the source of each definition and constant of ``code`` by name; none if it is not
    Python."""
    try:
        body = parse_program(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return dict(_named(code.splitlines(keepends=True), body))


def _named(lines: Sequence[str], body: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    for statement in body:
        start = statement.lineno
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                name = statement.name
                start = min([start, *(each.lineno for each in statement.decorator_list)])
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                pass
            case _:
                continue
        text = "".join(lines[start - 1 : statement.end_lineno])
        yield name, text if text.endswith("\n") else f"{text}\n"


def _within(
    room: int, engine: RolloutEngine, needed: Sequence[str], wanted: Sequence[str]
) -> list[str]:
    """Return the texts ``wanted``, the first ones whole, so that with those ``needed`` they take
    ``room`` tokens at most."""
    tokenizer = engine.tokenizer
    left = room - sum(len(tokenizer.encode(text, special=False)) for text in needed)
    fitted = []
    for text in wanted:
        ids = tokenizer.encode(text, special=False)
        kept = ids[: max(0, left)]
        fitted.append(text if len(kept) == len(ids) else tokenizer.decode(kept))
        left -= len(kept)
    return fitted


def _digest(workspace: Workspace) -> str:
    """Return the workspace's digest of how harnesses did."""
    path = workspace.root / "digest.md"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _why(replies: Sequence[Reply]) -> str:
    """Return why there is no candidate, in one line."""
    reasons = [reply.reason for reply in replies if not isinstance(reply, Call)]
    return reasons[0] if reasons else "the model wrote nothing new"

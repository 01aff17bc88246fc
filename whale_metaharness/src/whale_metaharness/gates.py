"""The gates a candidate passes before it costs rollouts, cheap ones first.

A gate returns its reason for refusing, in one line, or None. The first that refuses is the
candidate's rejection; it is kept in the archive and fed back to proposers.
"""

from __future__ import annotations

import ast
from collections.abc import Awaitable, Callable, Mapping

from attrs import field, frozen

from whale_core.keys import content_hash
from whale_core.roles import Harness, NullResult, Rejection, SearchContext
from whale_metaharness.leak import PrivateTexts
from whale_metaharness.normalise import normalised_hash, parse_problem, parse_program
from whale_metaharness.spaces import Space

RUN_ARGUMENTS = ["self", "task", "model", "env"]


@frozen
class Rules:
    """What the gates compare a candidate with: limits, the space, the incoming harness, the ids of
    all archived programs by normalised hash, and the texts of examples that must not be in it."""

    max_source_bytes: int
    space: Space
    incoming: str
    known: Mapping[str, str]
    private: PrivateTexts = field(factory=PrivateTexts)


@frozen
class Passage:
    """What the gates found: a rejection or None, and the position leak if it was measured."""

    rejection: Rejection | None = None
    position_leak: Mapping[str, float] = field(factory=dict)


async def check(source: str, rules: Rules, context: SearchContext) -> Passage:
    """Send a candidate through all gates in order and stop at the first that refuses."""
    for gate, refuse in SOURCE_GATES.items():
        reason = refuse(source, rules)
        if reason is not None:
            return Passage(Rejection(gate, reason))
    harness = Harness(content_hash(source), source)
    runtime: dict[str, Callable[[Harness], Awaitable[str | None]]] = {
        "load": context.load_check,
        "smoke": context.smoke,
    }
    for gate, run in runtime.items():
        reason = await run(harness)
        if reason is not None:
            return Passage(Rejection(gate, reason))
    return _judge_nulls(await context.null_check(harness), context)


def storable(source: str, max_bytes: int) -> str:
    """Return the part of a source that the archive keeps: all of it, if it passes the gate
    ``size``."""
    return source.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")


def size(source: str, rules: Rules) -> str | None:
    """Refuse what is empty, too long, or not text."""
    if not source.strip():
        return "the file is empty"
    try:
        count = len(source.encode())
    except UnicodeEncodeError as error:
        return f"not UTF-8 text: {error.reason} at character {error.start}"
    if count > rules.max_source_bytes:
        return f"{count} bytes; the most allowed is {rules.max_source_bytes}"
    return None


def parse(source: str, rules: Rules) -> str | None:
    """Refuse what is not Python."""
    return parse_problem(source)


def interface(source: str, rules: Rules) -> str | None:
    """Refuse what does not define ``class Harness(BaseHarness)`` with the right ``run``."""
    classes = [
        node
        for node in parse_program(source).body
        if isinstance(node, ast.ClassDef) and node.name == "Harness"
    ]
    if not classes:
        return "no top-level class Harness"
    harness = classes[-1]
    if "BaseHarness" not in [_last_name(base) for base in harness.bases]:
        return f"line {harness.lineno}: class Harness must derive from BaseHarness"
    wanted = f"async def run({', '.join(RUN_ARGUMENTS)})"
    runs = [
        node
        for node in harness.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "run"
    ]
    if not runs:
        return f"class Harness has no {wanted}"
    run = runs[-1]
    if isinstance(run, ast.FunctionDef):
        return f"line {run.lineno}: run must be {wanted}"
    names = [argument.arg for argument in run.args.posonlyargs + run.args.args]
    if names != RUN_ARGUMENTS or run.args.vararg or run.args.kwonlyargs or run.args.kwarg:
        return f"line {run.lineno}: run must be {wanted}"
    return None


def space(source: str, rules: Rules) -> str | None:
    """Refuse what changes more than the search space allows."""
    return rules.space.refuse(source, rules.incoming)


def leak(source: str, rules: Rules) -> str | None:
    """Refuse what has texts or answers of examples in it."""
    return rules.private.found_in(source)


def duplicate(source: str, rules: Rules) -> str | None:
    """Refuse what the archive has already, up to comments, layout and docstrings."""
    original = rules.known.get(normalised_hash(source))
    return None if original is None else f"the same program as {original}"


SOURCE_GATES: Mapping[str, Callable[[str, Rules], str | None]] = {
    "size": size,
    "parse": parse,
    "interface": interface,
    "space": space,
    "duplicate": duplicate,
    "leak": leak,
}


def _judge_nulls(results: list[NullResult], context: SearchContext) -> Passage:
    positional = {null.name for null in context.domain.null_models if not null.refuses}
    leak = {result.name: result.mean for result in results if result.name in positional}
    for result in results:
        if result.refused:
            reason = (
                f"null model {result.name} scored {100 * result.mean:.1f} % of {result.examples}, "
                f"chance is {100 * result.chance:.1f} %: the harness solves the task itself"
            )
            return Passage(Rejection("null", reason), leak)
    return Passage(None, leak)


def _last_name(expression: ast.expr) -> str | None:
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None

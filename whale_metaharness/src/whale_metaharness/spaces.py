"""Search spaces: what a candidate may change against the phase's incoming harness.

Each is a check of syntax trees: what may change is taken out of both programs, and the rest must be
equal. Comments, layout and docstrings are no part of a program, except where it can read its own
docstrings.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from attrs import frozen

from whale_core.errors import InputError
from whale_metaharness.members import member_name
from whale_metaharness.normalise import parse_problem, parse_program, without_docstrings

PROMPT = re.compile(r"[A-Z][A-Z0-9_]*PROMPT|PROMPT")
READS_ITSELF = re.compile(r"__doc__|\binspect\b|getdoc|getsource|__file__")


@frozen
class Space:
    """A search space: what it admits ``in_words``, and why it refuses ``(candidate, incoming)``,
    two sources that parse; None for what it admits."""

    in_words: str
    refuse: Callable[[str, str], str | None]


def space_of(name: str, members: Sequence[str] = ()) -> Space:
    """Return the space called ``name`` (one of ``NAMES``); ``members`` are those that the space of
    that name lets change."""
    if name == "members":
        return _only_members(frozenset(members))
    return SPACES[name]


def prompts_of(source: str) -> dict[str, str]:
    """Return the prompts that a harness declares: constants of ``class Harness`` whose name ends in
    ``PROMPT`` and whose value is a plain string literal, each bound once."""
    return {
        name: node.value
        for name, node in _prompt_literals(_harness(parse_program(source))).items()
        if isinstance(node.value, str)
    }


def members_of(source: str) -> frozenset[str]:
    """Return the names of the methods and constants of ``class Harness``, as the space ``members``
    knows them."""
    harness = _harness(parse_program(source))
    names = map(member_name, [] if harness is None else harness.body)
    return frozenset(name for name in names if name is not None)


def _full(candidate: str, incoming: str) -> str | None:
    return None


def _prompt_only(candidate: str, incoming: str) -> str | None:
    """Admit other text in the prompts that the incoming harness declares, and nothing else."""
    names = sorted(prompts_of(incoming))
    said = (
        f"prompt-only: only the text of {', '.join(names) or 'prompts (there are none)'} may change"
    )

    def masked(source: str) -> ast.Module:
        module = parse_program(source)
        for name, literal in _prompt_literals(_harness(module)).items():
            if name in names:
                literal.value, literal.kind = "", None
        return module

    return _differs(masked(candidate), masked(incoming), incoming, said)


def _only_members(names: frozenset[str]) -> Space:
    listed = ", ".join(sorted(names))
    words = (
        f"These members of `class Harness`, and nothing else: {listed}. Each is one method or one "
        "constant; comments and docstrings may change everywhere."
    )

    def refuse(candidate: str, incoming: str) -> str | None:
        def without(source: str) -> ast.Module:
            module = parse_program(source)
            harness = _harness(module)
            if harness is not None:
                bound = Counter(member_name(statement) for statement in harness.body)
                kept = [
                    statement
                    for statement in harness.body
                    if member_name(statement) not in names or bound[member_name(statement)] > 1
                ]
                harness.body = kept or [ast.Pass()]
            return module

        said = f"members: only {listed} may change"
        return _differs(without(candidate), without(incoming), incoming, said)

    return Space(words, refuse)


SPACES: Mapping[str, Space] = {
    "full": Space("Everything: it is a whole program.", _full),
    "prompt-only": Space(
        "The text of prompts alone: the string literals bound to constants of `class Harness` "
        "whose names end in `PROMPT`, such as `SYSTEM_PROMPT` and `USER_PROMPT`. They must stay "
        "plain string literals (several in a row in parentheses are one). Everything else must "
        "stay as it is in the phase's incoming harness (`state.json` names it), comments and "
        "docstrings apart.",
        _prompt_only,
    ),
}
"""The spaces without parameters."""
NAMES = (*SPACES, "members")


def _differs(candidate: ast.Module, incoming: ast.Module, source: str, said: str) -> str | None:
    """Return None for equal programs, else ``said`` and where they differ."""
    if not READS_ITSELF.search(source):
        candidate, incoming = without_docstrings(candidate), without_docstrings(incoming)
    if ast.dump(candidate) == ast.dump(incoming):
        return None
    return f"{said}; {_where(candidate, incoming)}"


def _where(candidate: ast.Module, incoming: ast.Module) -> str:
    """Name the first statement of the candidate that is not the incoming harness's."""
    ours, theirs = _harness(candidate), _harness(incoming)
    rest = [
        [statement for statement in module.body if statement is not harness]
        for module, harness in ((candidate, ours), (incoming, theirs))
    ]
    pairs = (
        [(rest[0], rest[1], "outside class Harness")]
        if ours is None or theirs is None
        else [
            (rest[0], rest[1], "outside class Harness"),
            (ours.body, theirs.body, "in class Harness"),
        ]
    )
    for mine, other, place in pairs:
        known = Counter(ast.dump(statement) for statement in other)
        for statement in mine:
            if not known[ast.dump(statement)]:
                name = member_name(statement)
                what = f"{name} differs" if name else "a statement is new"
                return f"line {statement.lineno}: {what} {place}"
            known[ast.dump(statement)] -= 1
        if gone := [each for each in other if known[ast.dump(each)]]:
            name = member_name(gone[0])
            return f"{name or 'a statement'} is gone {place}"
    return "the order of statements, or the class's head, differs"


def _harness(module: ast.Module) -> ast.ClassDef | None:
    """Return the class ``Harness`` of a module: its last definition at top level."""
    found = [s for s in module.body if isinstance(s, ast.ClassDef) and s.name == "Harness"]
    return found[-1] if found else None


def _prompt_literals(harness: ast.ClassDef | None) -> dict[str, ast.Constant]:
    """Return the literals of declared prompts by name."""
    if harness is None:
        return {}
    bound = Counter(
        node.id
        for statement in harness.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del)
    )
    found: dict[str, ast.Constant] = {}
    for statement in harness.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str()) as literal)
                | ast.AnnAssign(
                    target=ast.Name(id=name), value=ast.Constant(value=str()) as literal, simple=1
                )
            ) if PROMPT.fullmatch(name) and bound[name] == 1:
                found[name] = literal
    return found


def check_space(space: str, members: Sequence[str]) -> None:
    """Raise ``InputError`` unless members are named where, and only where, the space asks for
    them."""
    if members and space != "members":
        raise InputError(
            f"harness_search.members={list(members)}: they are read where space is members, "
            f"and it is {space}; drop one of the two"
        )
    bad = [name for name in members if not name.isidentifier()]
    if space == "members" and (bad or not members):
        what = f"{bad[0]!r} is no name" if bad else "there are none"
        raise InputError(
            f"harness_search.members: {what}; name the members of class Harness that may change, "
            "as members=[parse,USER_PROMPT]"
        )


def check_start(space: str, members: Sequence[str], source: str) -> None:
    """Raise ``InputError`` if the space lets nothing change in the harness to start from."""
    if parse_problem(source) is not None:
        return  # the gate "parse" says so
    if space == "prompt-only" and not prompts_of(source):
        raise InputError(
            "harness_search.space=prompt-only: class Harness of the harness to start from has "
            "no constant *_PROMPT that is a plain string, so nothing may change; choose "
            "another harness or space"
        )
    present = members_of(source)
    if space == "members" and not present.intersection(members):
        raise InputError(
            f"harness_search.members={list(members)}: class Harness of the harness to start "
            f"from has none of them; it has {', '.join(sorted(present)) or 'none'}"
        )


def unknown_members(members: Sequence[str], source: str) -> str:
    """Return what a reader should know of members that the harness to start from does not have."""
    unknown = sorted(set(members) - members_of(source))
    if not unknown:
        return ""
    return (
        f"; of harness_search.members it has no {', '.join(unknown)}: candidates may add what is "
        "called so"
    )

"""Surgery on harness sources: list and replace members of ``class Harness``.

A member is a method, a nested class, or a constant with one name, on lines of its own. It includes
its decorators, a comment at the end of its last line, and the comment lines directly above it.
Everything else is kept byte for byte.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping

from attrs import frozen

from whale_core.errors import InputError
from whale_metaharness.normalise import parse_program

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class MemberError(InputError):
    """A source or an edit on which member surgery is not possible."""


@frozen
class Member:
    """A member of ``class Harness``: its source at column 0, and the file's lines
    ``[start, end)`` it stands on, counted from 0."""

    name: str
    text: str
    start: int
    end: int


def members(source: str) -> dict[str, Member]:
    """Return the members of ``class Harness`` by name, in file order.

    Raises:
        MemberError: ``source`` does not parse or has no such class.
    """
    lines = _lines(source)
    body = harness_class(source).body
    indent = _indent(lines, body)
    in_string = _lines_inside_strings(source)
    bound = Counter(name for statement in body for name in _bound_names(statement))
    found: dict[str, Member] = {}
    previous_end = 0
    for statement in body:
        start = _first_line(statement)
        end = statement.end_lineno or statement.lineno
        name = member_name(statement)
        if name is not None and bound[name] == 1 and _alone(lines, statement):
            start = _above_comments(lines, start, previous_end, indent)
            text = "".join(
                lines[i] if i in in_string else lines[i].removeprefix(indent)
                for i in range(start, end)
            )
            found[name] = Member(name, text, start, end)
        previous_end = end
    return found


def replace_members(source: str, replacements: Mapping[str, str]) -> str:
    """Return ``source`` with members of ``class Harness`` replaced, or added where they are new.

    ``replacements`` maps a member's name to its source at column 0. New constants go before the
    first method, new methods to the end of the class.

    Raises:
        MemberError: ``source`` or a replacement cannot be used; the message says which and why.
    """
    for name, text in replacements.items():
        check_member(name, text)
        source = _put_member(source, name, text)
    return source


def check_member(name: str, text: str) -> None:
    """Raise ``MemberError`` unless ``text`` is the source of one member called ``name``."""
    try:
        body = parse_program(text).body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise MemberError(f"member {name!r} does not parse: {error}") from None
    names = [member_name(statement) for statement in body]
    if names != [name] or not _alone(_lines(text), body[0]):
        raise MemberError(
            f"member {name!r}: its source must be one definition of that name at column 0, "
            f"it has {', '.join(str(found) for found in names) or 'none'}"
        )


def harness_class(source: str) -> ast.ClassDef:
    """Return the class ``Harness`` of a module (its last definition counts).

    Raises:
        MemberError: ``source`` does not parse or has no such class at top level.
    """
    try:
        module = parse_program(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise MemberError(f"the harness source does not parse: {error}") from None
    for statement in reversed(module.body):
        if isinstance(statement, ast.ClassDef) and statement.name == "Harness":
            return statement
    raise MemberError("the harness source has no top-level class Harness")


def _put_member(source: str, name: str, text: str) -> str:
    lines = _lines(source)
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += "\n"
    body = harness_class(source).body
    indented = _indented(text, _indent(lines, body))
    present = members(source).get(name)
    if present is not None:
        lines[present.start : present.end] = [indented]
    elif any(name in _bound_names(statement) for statement in body):
        raise MemberError(
            f"{name!r} of class Harness is not a plain member on lines of its own; "
            f"define it once, by one def or one assignment"
        )
    elif isinstance(parse_program(text).body[0], _Definition):
        end = body[-1].end_lineno or body[-1].lineno
        lines[end:end] = ["\n", indented]
    else:
        at = _place_for_constant(lines, body)
        lines[at:at] = [indented]
    result = "".join(lines)
    members(result)
    return result


def _place_for_constant(lines: list[str], body: list[ast.stmt]) -> int:
    """Return the line (from 0) before which a new constant goes: after all that precedes the first
    method."""
    last: ast.stmt | None = None
    for statement in body:
        if isinstance(statement, _Definition):
            break
        last = statement
    if last is None:
        return _above_comments(lines, _first_line(body[0]), 0, _indent(lines, body))
    return last.end_lineno or last.lineno


def _lines(source: str) -> list[str]:
    """Split where Python does (unlike ``str.splitlines``, not at form feeds or U+2028)."""
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$", source)


def _indent(lines: list[str], body: list[ast.stmt]) -> str:
    line = lines[_first_line(body[0])]
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    if not indent:
        raise MemberError("class Harness has its body on its own line; indent it below")
    return indent


def _indented(text: str, indent: str) -> str:
    """Indent ``text``, but not the insides of strings, which would change what they say."""
    if not text.endswith("\n"):
        text += "\n"
    in_string = _lines_inside_strings(text)
    return "".join(
        line if i in in_string or not line.strip() else indent + line
        for i, line in enumerate(_lines(text))
    )


def _lines_inside_strings(source: str) -> frozenset[int]:
    """Return the lines (from 0) that begin inside a string literal."""
    inside: set[int] = set()
    open_rows: list[int] = []  # rows of f-strings not yet closed: Python 3.12 splits these up
    kinds = tokenize.tok_name
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source, newline=None).readline))
    except (tokenize.TokenError, SyntaxError) as error:
        raise MemberError(f"the source cannot be split into tokens: {error}") from None
    for token in tokens:
        kind = kinds[token.type]
        if kind == "STRING":
            inside.update(range(token.start[0], token.end[0]))
        elif kind.endswith("STRING_START"):
            open_rows.append(token.start[0])
        elif kind.endswith("STRING_END"):
            inside.update(range(open_rows.pop(), token.end[0]))
    return frozenset(inside)


def _first_line(statement: ast.stmt) -> int:
    """Return the line (from 0) on which a statement begins, decorators included."""
    decorators = statement.decorator_list if isinstance(statement, _Definition) else []
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)]) - 1


def _above_comments(lines: list[str], start: int, stop: int, indent: str) -> int:
    """Return the first line of the comment block that ends right above line ``start``."""
    while start > stop and lines[start - 1].startswith(indent + "#"):
        start -= 1
    return start


def _alone(lines: list[str], statement: ast.stmt) -> bool:
    """Say whether no other statement shares the lines of this one."""
    before = lines[statement.lineno - 1].encode()[: statement.col_offset]
    after = lines[(statement.end_lineno or 1) - 1].encode()[statement.end_col_offset :]
    return not before.strip() and (not after.strip() or after.strip().startswith(b"#"))


def member_name(statement: ast.stmt) -> str | None:
    """Return what a statement of a class body defines, if it defines one plain member."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            return name
    return None


def _bound_names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement of a class body binds in the class."""
    if isinstance(node, _Definition):
        yield node.name
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from _bound_names(child)

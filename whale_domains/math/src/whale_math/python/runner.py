"""Runs one program as a script. Standard library only: this text itself is sent into the jail, or
to a service, in front of what calls it.
"""

import ast
import io
import json
import linecache
import sys
import textwrap
import traceback
from typing import Any

FILE = "main.py"
FRAMES = 6  # of a traceback, from its end


class TooMuch(BaseException):
    """More was written than is kept: the program is ended there."""


class Kept(io.TextIOBase):
    """A stream that keeps the first ``most`` characters written to it, and then raises."""

    def __init__(self, most: int) -> None:
        self.parts: list[str] = []
        self.left = most
        self.over = False

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str, /) -> int:
        """Keep what there is room for."""
        kept = text[: self.left]
        if kept:
            self.parts.append(str(kept))
        self.left -= len(kept)
        if len(kept) < len(text):
            self.over = True
            raise TooMuch
        return len(text)


def execute(code: str, show_last: bool, errors: Any) -> int:
    """Run ``code`` as ``__main__`` and return its exit status; a traceback goes to ``errors``.

    With ``show_last`` the value of a last statement that is an expression is printed as Python's
    prompt prints it: not ``None``, and nothing for an assignment or a comment. Code that is
    indented as a whole is dedented.
    """
    code = textwrap.dedent(code.expandtabs())
    linecache.cache[FILE] = (len(code), None, code.splitlines(True), FILE)
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    try:
        tree = ast.parse(code, FILE)
        last = tree.body.pop() if show_last and tree.body else None
        if not isinstance(last, ast.Expr):
            tree.body += [last] if last is not None else []
            last = None
        exec(compile(tree, FILE, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), FILE, "eval"), names)
            if value is not None:
                print(repr(value))
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=errors)
        return 1
    except TooMuch:
        raise
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != FILE:
            trace = trace.tb_next
        lines = traceback.format_exception(type(error), error, trace, limit=-FRAMES)
        errors.write("".join(lines))
        return 1
    return 0


def captured(code: str, show_last: bool, most: int) -> str:
    """Run ``code``; return stdout, stderr and exit status as JSON.

    The exit status is null where the program wrote more than is kept.

    Args:
        code: the program.
        show_last: see ``execute``.
        most: how many characters of each stream are kept.
    """
    out, errors = Kept(most), Kept(most)
    dumps = json.dumps  # what the program does to the module then is its own affair
    streams: Any = out, errors
    sys.stdout, sys.stderr = streams
    status: int | None
    try:
        status = execute(code, show_last, errors)
    except TooMuch:
        status = None
    if out.over or errors.over:
        status = None
    kept = {"stdout": "".join(out.parts), "stderr": "".join(errors.parts)}
    return dumps({**kept, "exit_status": status})

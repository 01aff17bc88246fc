"""Reading programs, and their identity up to comments, layout and docstrings."""

from __future__ import annotations

import ast
import warnings
from functools import lru_cache

from whale_core.keys import content_hash

_HasDocstring = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def parse_program(source: str) -> ast.Module:
    """Return the syntax tree; Python's warnings about the program are its author's, not ours.

    Raises:
        SyntaxError: ``source`` is not Python.
        ValueError: It contains null bytes.
        RecursionError: It is nested too deeply to be read.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


@lru_cache(maxsize=2048)  # the whole archive is asked for before each candidate
def normalised_hash(source: str) -> str:
    """Return a hash that ignores comments, layout and docstrings; raises as ``parse_program``."""
    node = without_docstrings(parse_program(source))
    return content_hash(ast.dump(node, annotate_fields=False))


def without_docstrings(module: ast.Module) -> ast.Module:
    """Take the docstrings out of a syntax tree, and return it."""
    for inner in ast.walk(module):
        if isinstance(inner, _HasDocstring) and ast.get_docstring(inner, clean=False) is not None:
            inner.body = inner.body[1:] or [ast.Pass()]
    return module


def parse_problem(source: str) -> str | None:
    """Return why a source is not Python, None if it is."""
    try:
        normalised_hash(source)
    except SyntaxError as error:
        return error.msg if error.lineno is None else f"line {error.lineno}: {error.msg}"
    except ValueError as error:  # how some versions of Python report null bytes
        return str(error)
    except (RecursionError, MemoryError):
        return "nested too deeply to be read"
    return None

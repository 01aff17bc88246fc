"""Search spaces: what a candidate may change, each a check of its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

SpaceCheck = Callable[[ast.Module, ast.Module], str | None]


def full(candidate: ast.Module, incoming: ast.Module) -> str | None:
    """Allow every change."""
    return None


SPACES: Mapping[str, SpaceCheck] = {"full": full}
"""Checks by name: ``(candidate, incoming harness)`` to the reason for refusing, or None."""

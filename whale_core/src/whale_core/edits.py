"""Writing catalogue edits as the source text of the members they replace."""

from __future__ import annotations

import ast
import re

from whale_core.roles import Edit


def edit(name: str, axis: str, kind: str, hypothesis: str, source: str) -> Edit:
    """Return the edit whose members are the top-level statements of ``source``.

    Raises:
        ValueError: a statement is neither a function nor a plain constant.
    """
    members: dict[str, str] = {}
    for node in ast.parse(source).body:
        text = ast.get_source_segment(source, node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and text:
            members[node.name] = text + "\n"
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and text:
            members[node.targets[0].id] = text + "\n"
        else:
            raise ValueError(f"edit {name!r}: only functions and plain constants are members")
    return Edit(name, axis, hypothesis, members, kind)


def uncapped(source: str) -> str:
    """Return a base harness whose replies may be as long as the episode's limit leaves them.

    As published, where the cap of a call is what is left of the budget of assistant tokens.

    Raises:
        ValueError: ``source`` has no constant ``MAX_TOKENS``.
    """
    changed, count = re.subn(r"(?m)^    MAX_TOKENS = \d+.*$", "    MAX_TOKENS = None", source)
    if count != 1:
        raise ValueError("the harness must set MAX_TOKENS once")
    return changed

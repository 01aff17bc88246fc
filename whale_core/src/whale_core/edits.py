"""Writing catalogue edits as the source text of the members they replace."""

from __future__ import annotations

import ast

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

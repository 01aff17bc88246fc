"""Prompt templates with named slots."""

from __future__ import annotations

import re


def fill(template: str, /, **slots: object) -> str:
    """Put ``str(value)`` in place of each ``{name}`` in ``slots``; leave all other text alone.

    It is one pass of plain replacement: braces inside a value are never expanded, and braces that
    name no given slot (JSON examples, say) stay as they are.
    """
    if not slots:
        return template
    names = "|".join(re.escape(name) for name in slots)
    return re.sub(rf"\{{({names})\}}", lambda match: str(slots[match[1]]), template)

"""Checks references between settings, ``${…}``, before they are followed.

Following them is recursive and repeats a value wherever it is named: a chain of settings that each
name the one before twice grows without bound. Here the size is counted first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from whale_core.config.structure import join
from whale_core.errors import InputError

REFERENCE = re.compile(r"\$\{\s*(?:(oc\.env):([^${},]+)(,[^${}]*)?|(\.*)([^${}:]*?))\s*\}")
MISSING: Any = object()
MAX_CHAIN = 32
MAX_CHARACTERS = 1 << 20

Place = tuple[Any, ...]


def check_references(tree: Mapping[str, Any]) -> None:
    """Raise ``InputError``, naming the setting, for references that cannot be followed.

    ``${a.b}``, ``${.beside}`` and ``${oc.env:NAME,default}`` can.
    """
    counter = _Counter(tree)
    for key, value in tree.items():
        counter.count(value, (key,))


class _Counter:
    """Counts the characters that values have once their references are followed."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self._tree = tree
        self._known: dict[Place, tuple[int, int]] = {}

    def count(self, value: Any, place: Place, chain: tuple[Place, ...] = ()) -> tuple[int, int]:
        """Return the size of ``value`` and how many references follow on each other in it."""
        if place in self._known:
            return self._known[place]
        parts: list[tuple[int, int]] = []
        size = 8
        if isinstance(value, Mapping):
            parts = [self.count(each, (*place, key), chain) for key, each in value.items()]
        elif isinstance(value, list | tuple):
            parts = [self.count(each, (*place, f"[{i}]"), chain) for i, each in enumerate(value)]
        elif isinstance(value, str):
            size = len(value)
            if "${" in value:
                parts = [(0, 1), *self._targets(value, place, chain)]
        size += sum(part for part, _ in parts)
        depth = max((depth for _, depth in parts), default=0)
        if isinstance(value, str) and len(parts) > 1:
            depth += 1
        if size > MAX_CHARACTERS:
            raise InputError(f"{dotted(place)}: too large with what it refers to")
        if depth > MAX_CHAIN:
            raise InputError(f"{dotted(place)}: more than {MAX_CHAIN} references after each other")
        self._known[place] = size, depth
        return size, depth

    def _targets(
        self, text: str, place: Place, chain: tuple[Place, ...]
    ) -> Iterator[tuple[int, int]]:
        """Yield ``count`` of everything that ``text`` refers to."""
        if place in chain:
            raise InputError(f"{dotted(place)}: refers to itself")
        if len(chain) > MAX_CHAIN:
            raise InputError(f"{dotted(place)}: more than {MAX_CHAIN} references after each other")
        if "${" in REFERENCE.sub("", text):
            raise InputError(
                f"{dotted(place)}: cannot read the reference in {text[:80]!r}: "
                "write ${key.sub} or ${oc.env:NAME}"
            )
        for resolver, name, default, dots, path in REFERENCE.findall(text):
            if resolver:
                if name.strip() not in os.environ and not default:
                    raise InputError(
                        f"{dotted(place)}: the environment has no variable {name.strip()!r}"
                    )
                yield len(os.environ.get(name.strip(), "")), 0
                continue
            base = place[: len(place) - len(dots)] if dots else ()
            target = (*base, *re.findall(r"[^.\[\]]+", path))
            for end in range(1, len(target) + 1):
                found, where = self._find(target[:end])
                if found is MISSING:
                    raise InputError(f"{dotted(place)}: there is no setting {path!r} to refer to")
                if end == len(target) or isinstance(found, str):  # a reference on the way, too
                    yield self.count(found, where, (*chain, place))
                    break

    def _find(self, place: Place) -> tuple[Any, Place]:
        """Return what is at ``place`` (or ``MISSING``), and its place with list indices."""
        value: Any = self._tree
        where: list[Any] = []
        for part in place:
            key = part
            if isinstance(value, Mapping):
                key = next((each for each in value if str(each) == str(part)), part)
                value = value.get(key, MISSING)
            elif isinstance(value, list | tuple) and str(part).strip("[]").isdecimal():
                index = int(str(part).strip("[]"))
                key = f"[{index}]"
                value = value[index] if index < len(value) else MISSING
            else:
                value = MISSING
            where.append(key)
        return value, tuple(where)


def dotted(place: Place) -> str:
    """Return a place as a message writes it: ``a.b[1]``."""
    text = ""
    for part in place:
        is_index = isinstance(part, str) and re.fullmatch(r"\[\d+\]", part) is not None
        text = f"{text}{part}" if is_index else join(text, part)
    return text

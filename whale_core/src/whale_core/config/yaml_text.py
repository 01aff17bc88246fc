"""YAML of people's configuration files: every fault with its line, and bounded in what it costs.

Events are scanned before anything is built, because building is recursive and follows aliases: a
page of nested brackets or of aliases to aliases must be a message, not an overflow or a full
memory.
"""

from __future__ import annotations

import re
from typing import Any

import yaml  # type: ignore[import-untyped]
from attrs import define, field
from yaml.constructor import ConstructorError  # type: ignore[import-untyped]

MAX_CHARACTERS = 1 << 18
MAX_DEPTH = 32
MAX_NODES = 20_000  # aliases followed

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlError(Exception):
    """What is wrong with a YAML text, and in which line (from 1; None: unknown)."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.problem = " ".join(problem.split())
        self.line = line


class _Loader(_Base):  # type: ignore[misc]
    """The safe loader; ``1e-4`` is a number, a date is text, a bad scalar names its line."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (the name is the base class's)
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in _Base.yaml_implicit_resolvers.items()
    }

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except yaml.YAMLError:
            raise
        except Exception as error:  # int("0x", 16), a date of the 99th, …
            raise ConstructorError(
                None, None, f"cannot be read as {node.tag.split(':')[-1]}", node.start_mark
            ) from error

    def construct_scalar(self, node: Any) -> Any:
        value = super().construct_scalar(node)
        if isinstance(value, str) and not _is_unicode(value):
            raise ConstructorError(None, None, "not Unicode text", node.start_mark)
        return value


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\d[\d_]*\.?|\d[\d_]*\.\d[\d_]*|\.\d[\d_]*)[eE][-+]?\d+$", re.ASCII),
    list("-+.0123456789"),
)


def load(text: str) -> Any:
    """Return the value of a YAML text (None for an empty one).

    Raises:
        YamlError: it is not YAML, has a key twice, refers to itself, or is larger or deeper than
            any configuration.
    """
    if not _is_unicode(text):
        raise YamlError("not Unicode text")
    if len(text) > MAX_CHARACTERS:
        raise YamlError(f"longer than {MAX_CHARACTERS} characters: not a configuration")
    try:
        _scan(text)
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(error.problem or error.context, mark.line + 1 if mark else None) from error
    except yaml.reader.ReaderError as error:
        before = text.encode()[: error.position] if error.encoding else text[: error.position]
        lines = before.count(b"\n") if isinstance(before, bytes) else before.count("\n")
        raise YamlError(f"{error.reason} (#x{error.character:04x})", lines + 1) from error
    except yaml.YAMLError as error:
        raise YamlError(str(error)) from error


def line_of(text: str, path: str) -> int | None:
    """Return the line (from 1) in which ``text`` sets the key ``path`` (``a.b[1]``), if it does."""
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError:
        return None
    line = None
    for part in re.findall(r"[^.\[\]]+", path):
        found = None
        if isinstance(node, yaml.MappingNode):
            pairs = [pair for pair in node.value if str(pair[0].value) == part.strip("'\"")]
            found = pairs[-1] if pairs else None
        elif isinstance(node, yaml.SequenceNode) and part.isdecimal():
            found = (node.value[int(part)],) * 2 if int(part) < len(node.value) else None
        if found is None:
            return None
        line, node = found[0].start_mark.line + 1, found[1]
    return line


@define
class _Open:
    """A collection that is being scanned."""

    is_mapping: bool
    anchor: str | None
    nodes: int = 1
    parts: int = 0  # keys and values so far
    keys: set[str] = field(factory=set)


def _scan(text: str) -> None:
    """Raise for what must not be built: double keys, too deep, too large, its own part."""
    sizes: dict[str, int] = {}
    stack: list[_Open] = []
    for event in yaml.parse(text, Loader=_Loader):
        nodes = 0
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            if any(each.anchor == event.anchor for each in stack):
                raise YamlError(f"the alias *{event.anchor} stands inside what it names", line)
            nodes = sizes.get(event.anchor, 1)  # an unknown one is reported when it is built
        elif isinstance(event, yaml.ScalarEvent):
            nodes = 1
            if stack and stack[-1].is_mapping and stack[-1].parts % 2 == 0:
                if event.value in stack[-1].keys:
                    raise YamlError(f"found duplicate key {event.value}", line)
                stack[-1].keys.add(event.value)
        elif isinstance(event, yaml.CollectionStartEvent):
            stack.append(_Open(isinstance(event, yaml.MappingStartEvent), event.anchor))
            if len(stack) > MAX_DEPTH:
                raise YamlError(f"nested more than {MAX_DEPTH} deep", line)
            continue
        elif isinstance(event, yaml.CollectionEndEvent):
            closed = stack.pop()
            nodes = closed.nodes
            if closed.anchor:
                sizes[closed.anchor] = nodes
        if nodes and stack:
            stack[-1].nodes += nodes
            stack[-1].parts += 1
            if stack[-1].nodes > MAX_NODES:
                raise YamlError(f"has more than {MAX_NODES} values, aliases followed", line)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

"""YAML of people's configuration files: every fault with its line, and bounded in what it costs.

Events are scanned before anything is built, because building is recursive and follows aliases: a
page of nested brackets or of aliases to aliases must be a message, not an overflow or a full
memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml  # type: ignore[import-untyped]
from attrs import define, field
from yaml.constructor import ConstructorError  # type: ignore[import-untyped]

from whale_core.config.structure import join

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

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if key.tag.endswith(":merge"):
                continue
            if not isinstance(self.construct_object(key, deep=True), str | int | float):
                raise ConstructorError(None, None, "a key must be text", key.start_mark)
        return super().construct_mapping(node, deep=deep)

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
        problem = f"{error.context or ''} {error.problem or ''}"
        raise YamlError(
            problem if error.problem_mark is None or "document" in problem else error.problem,
            mark.line + 1 if mark else None,
        ) from error
    except yaml.reader.ReaderError as error:
        before = text.encode()[: error.position] if error.encoding else text[: error.position]
        lines = before.count(b"\n") if isinstance(before, bytes) else before.count("\n")
        raise YamlError(f"{error.reason} (#x{error.character:04x})", lines + 1) from error
    except yaml.YAMLError as error:
        raise YamlError(str(error)) from error


def line_of(text: str, problem: str) -> int | None:
    """Return the line (from 1) of the setting that ``problem`` begins with (``a.b[1]: …``).

    None: ``text``, which must be one that ``load`` takes, does not set it.
    """
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        lines = dict(_lines(loader, node, "")) if node is not None else {}
    finally:
        loader.dispose()
    named = [path for path in lines if problem.startswith(f"{path}:")]
    return lines[max(named, key=len)] if named else None


def _lines(loader: Any, node: Any, path: str) -> Iterator[tuple[str, int]]:
    """Yield the path and line of everything that is set below ``node``."""
    if isinstance(node, yaml.SequenceNode):
        for index, each in enumerate(node.value):
            yield f"{path}[{index}]", each.start_mark.line + 1
            yield from _lines(loader, each, f"{path}[{index}]")
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.tag.endswith(":merge"):
                for each in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    yield from _lines(loader, each, path)
                continue
            name = join(path, loader.construct_object(key, deep=True))
            yield name, key.start_mark.line + 1
            if not path and isinstance(value, yaml.ScalarNode):
                yield f"{name}.name", key.start_mark.line + 1  # a role's short form
            yield from _lines(loader, value, name)


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

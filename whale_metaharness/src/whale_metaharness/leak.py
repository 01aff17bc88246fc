"""The leak scan: texts and answers of examples that a candidate's source must not hold.

A harness that carries examples with it does not learn how to solve a task. So its strings, names
and comments are compared with all texts of D_harness: by runs of words that few examples share, by
names, and by how many of the answers they hold. Data that nobody can read (long runs without a
space, huge numbers, long tables) is refused as such. What the incoming harness, the domain's own
harnesses and its brief say already is no leak.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from attrs import field, frozen

from whale_core.records import Example, Json
from whale_core.roles import Domain
from whale_metaharness.normalise import parse_problem, parse_program

RUN, RUN_LENGTH = 6, 20  # words and characters: a run that few examples share is one example's
WHOLE = 3  # words: a text of as many that is no longer than a run counts as a whole
SHARED_BY = 2  # examples: what more of them say is how the domain speaks
NAMED_BY = 0.05  # of the examples: a name that more of them share is one that anyone may use
ANSWERS = 20  # different ones in one program
ANSWERED_BY = 0.05  # of all answers: where they are many and short, a worked example holds some
ANSWER_LENGTH = 3  # characters; shorter ones stand in any program
NAME_LENGTH = 4  # letters of each of two words that together are a name
UNBROKEN = 200  # characters without a space
BYTES = 64
DIGITS = 40
ELEMENTS = 100  # constants in one list, tuple, set or dictionary

_WORD = re.compile(r"[^\W_]+")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_NAMES = re.compile(r"(?:[^\W\d_a-z][^\W\d_]+[ '-]?){2,}")

Words = tuple[str, ...]


@frozen
class PrivateTexts:
    """What examples say: ``runs`` of words and ``names`` that few of them share, and their
    ``answers`` (private texts that are too short for a run). ``allowed`` is what anyone may say."""

    runs: frozenset[Words] = frozenset()
    names: frozenset[Words] = frozenset()
    answers: frozenset[Words] = frozenset()
    allowed: Said = field(factory=lambda: Said())

    @classmethod
    def of(
        cls,
        examples: Sequence[Example],
        views: Sequence[Mapping[str, Json]],
        sources: Iterable[str],
        brief: str = "",
    ) -> PrivateTexts:
        """Collect the texts of ``examples`` and their public ``views``; what ``sources`` (programs)
        and ``brief`` say is allowed."""
        runs: Counter[Words] = Counter()
        names: Counter[Words] = Counter()
        answers: set[Words] = set()
        for example, view in zip(examples, views, strict=True):
            private = set(_texts(example.content))
            texts = private | set(_texts(view))
            runs.update({run for text in texts for run in _runs(_words(text))})
            names.update({name for text in texts for name in _names(text)})
            short = {_words(text) for text in private if len(text) >= ANSWER_LENGTH}
            answers |= {words for words in short if 0 < len(words) < WHOLE}
        allowed = Said(tuple([_words(brief)]))
        for source in sources:
            allowed = allowed + said_by(source)
        named_by = max(SHARED_BY, int(NAMED_BY * len(examples)))
        return cls(_rare(runs, SHARED_BY), _rare(names, named_by), frozenset(answers), allowed)

    def found_in(self, source: str) -> str | None:
        """Return what of the examples a source holds, or which data in it nobody can read."""
        said = said_by(source)
        opaque = [each for each in said.opaque if each not in self.allowed.opaque]
        if opaque:
            return f"it carries data that cannot be read as a program: {opaque[0]}"
        for kind, known in (("words", self.runs), ("name", self.names)):
            lengths = {len(each) for each in known}
            for stream in said.streams:
                for words in _parts(stream, lengths):
                    if words in known and not self.allowed.says(words):
                        return f"the {kind} {' '.join(words)!r} are an example's, not a harness's"
        lengths = {len(each) for each in self.answers}
        held = {
            words
            for stream in said.streams
            for words in _parts(stream, lengths)
            if words in self.answers and not self.allowed.says(words)
        }
        if len(held) >= max(ANSWERS, ANSWERED_BY * len(self.answers)):
            return f"its texts hold {len(held)} of the examples' answers"
        return None


def private_texts(domain: Domain, incoming: str) -> PrivateTexts:
    """Return what the examples of D_harness say, which a candidate must not; what the source
    ``incoming`` says already is allowed."""
    examples = domain.split("harness")
    views = [domain.environment(example).view() for example in examples]
    own = [*domain.harnesses.values(), incoming]
    sources = [source for source in own if parse_problem(source) is None]
    return PrivateTexts.of(examples, views, sources, domain.brief)


@frozen
class Said:
    """What a source says: word by word in its strings, in its names and in its comments, each in
    order of appearance; and descriptions of data in it that cannot be read."""

    streams: tuple[Words, ...] = ()
    opaque: frozenset[str] = frozenset()

    def __add__(self, other: Said) -> Said:
        """Return both together."""
        return Said((*self.streams, *other.streams), self.opaque | other.opaque)

    def says(self, words: Words) -> bool:
        """Return whether these words stand next to each other anywhere."""
        return any(words in _parts(stream, {len(words)}) for stream in self.streams)


def said_by(source: str) -> Said:
    """Return what a source that parses says."""
    strings: list[tuple[int, int, str]] = []
    names: list[tuple[int, int, str]] = []
    opaque: set[str] = set()
    for node in ast.walk(parse_program(source)):
        at = (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
        match node:
            case ast.Constant(value=str() as text):
                strings.append((*at, text))
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                names.append((*at, name))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.append((*at, name))
            case ast.ClassDef(name=name):
                names.append((*at, name))
            case ast.keyword(arg=str() as name):
                names.append((*at, name))
        if description := _opaque(node):
            opaque.add(description)
    streams = (
        tuple(word for _, _, text in sorted(strings) for word in _words(text)),
        tuple(part.lower() for _, _, name in sorted(names) for part in _PARTS.findall(name)),
        tuple(word for comment in _comments(source) for word in _words(comment)),
    )
    return Said(streams, frozenset(opaque))


def _opaque(node: ast.AST) -> str | None:
    """Return which data that cannot be read a node is."""
    line = f"line {getattr(node, 'lineno', 0)}"
    match node:
        case ast.Constant(value=str() as text):
            longest = max((run for run in text.split()), key=len, default="")
            if len(longest) > UNBROKEN and len(set(longest)) > 16:
                return f"{line}, {len(longest)} characters without a space"
        case ast.Constant(value=bytes() as data) if len(data) > BYTES:
            return f"{line}, {len(data)} bytes"
        case ast.Constant(value=int() as number) if abs(number) >= 10**DIGITS:
            return f"{line}, a number of more than {DIGITS} digits"
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            constants = sum(isinstance(each, ast.Constant) for each in elements)
            if constants > ELEMENTS:
                return f"{line}, a table of {constants} constants"
        case ast.Dict(keys=keys):
            constants = sum(isinstance(each, ast.Constant) for each in keys)
            if constants > ELEMENTS:
                return f"{line}, a table of {constants} constants"
    return None


def _comments(source: str) -> Iterator[str]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.string
    except (tokenize.TokenError, SyntaxError):
        return  # it parses all the same: its comments are left alone


def _words(text: str) -> Words:
    return tuple(word.lower() for word in _WORD.findall(text))


def _runs(words: Words) -> Iterator[Words]:
    """Yield what of a text tells its example: each run of words, or all of a short text."""
    found = False
    for start in range(len(words)):
        end = start + RUN
        while end <= len(words) and sum(map(len, words[start:end])) < RUN_LENGTH:
            end += 1
        if end <= len(words):
            found = True
            yield words[start:end]
    if not found and len(words) >= WHOLE:
        yield words


def _names(text: str) -> Iterator[Words]:
    """Yield the pairs of capitalised words that stand side by side."""
    for found in _NAMES.findall(text):
        words = _words(found)
        for pair in pairwise(words):
            if min(map(len, pair)) >= NAME_LENGTH:
                yield pair


def _parts(stream: Words, lengths: set[int]) -> set[Words]:
    """Return all runs of words of these lengths."""
    return {
        stream[start : start + length]
        for length in lengths
        for start in range(len(stream) - length + 1)
    }


def _rare(counted: Counter[Words], most: int) -> frozenset[Words]:
    return frozenset(each for each, number in counted.items() if number <= most)


def _texts(value: Json) -> Iterator[str]:
    """Yield every text and number in a JSON value, as text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)

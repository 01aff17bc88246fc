"""The toy domain ``toy``: say a vowel.

Every example lists a few letters, some of them vowels; the model has to say a listed vowel. Nothing
in the view tells vowels from consonants, so the weights must learn it, and the harness decides how
much of a clumsy reply is understood.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources

import numpy as np
from attrs import frozen

from whale_core.keys import generator
from whale_core.plugins import Setup
from whale_core.records import Example, Json, Message, Trajectory, Verdict
from whale_core.roles import Edit, Limits, Metric, NullModel, Tool

VOWELS = "aeiou"
CONSONANTS = "bcdfghjklmnpqrstvwxyz"
SPLITS = ("weight", "harness", "selection", "test")

_STRICT = '''def parse(self, text, task):
    """Take the first character of the reply."""
    return text[:1]
'''
_LAST = '''def parse(self, text, task):
    """Take the last character of the reply."""
    return text[-1:]
'''


@frozen
class DomainConfig:
    """Settings of the toy domain: how many examples each split has."""

    weight: int = 64
    """Examples that weight steps take their prompts from."""
    harness: int = 64
    """Examples on which candidate harnesses are scored."""
    selection: int = 32
    """Examples for choosing between phases."""
    test: int = 64
    """Examples of the final pass."""

    def split_sizes(self) -> Mapping[str, int]:
        """Return how many examples each split is to have."""
        return {name: getattr(self, name) for name in ("weight", "harness", "selection", "test")}


@frozen
class VerifierConfig:
    """The toy verifier has no settings."""


class ToyEnvironment:
    """Takes the letters a harness says; the first one counts."""

    def __init__(self, letters: str) -> None:
        self._letters = letters
        self._said: list[str] = []

    def view(self) -> Mapping[str, Json]:
        """Return the listed letters."""
        return {"letters": self._letters}

    def call(self, name: str, arguments: Mapping[str, Json]) -> Json:
        """Take one letter. Raises ``ValueError`` unless it is a single character."""
        letter = arguments.get("letter")
        if not isinstance(letter, str) or len(letter) != 1:
            raise ValueError("letter must be one character")
        self._said.append(letter)
        return {"listed": letter in self._letters}

    def record(self) -> Mapping[str, Json]:
        """Return what was said."""
        return {"said": list(self._said)}


def _random_letter(
    view: Mapping[str, Json], messages: Sequence[Message], rng: np.random.Generator
) -> str:
    return str(rng.choice(list(view["letters"])))


def _every_letter(
    view: Mapping[str, Json], messages: Sequence[Message], rng: np.random.Generator
) -> str:
    return "".join(rng.permutation(list(view["letters"])))


def _first_letter(
    view: Mapping[str, Json], messages: Sequence[Message], rng: np.random.Generator
) -> str:
    return str(view["letters"][0])


def _uniform(views: Sequence[Mapping[str, Json]]) -> float:
    return float(
        np.mean([sum(c in VOWELS for c in v["letters"]) / len(v["letters"]) for v in views])
    )


def _said_listed(trajectory: Trajectory) -> float:
    return float(any(event.result["listed"] for event in trajectory.answered))


class ToyDomain:
    """Implements ``whale_core.roles.Domain``."""

    name = "toy"
    version = "1"
    limits = Limits(model_calls=4, sampled_tokens=64, cpu_seconds=2.0, wall_seconds=20.0)
    tools = (Tool("say", "Say a letter.", {"letter": "one character"}, sampled=("letter",)),)
    answer_is_sampled = False
    base_harness = "first-listed-letter"
    verifier = "toy"
    metrics = (Metric("format", _said_listed, tie_break=True),)
    null_models = (
        NullModel("random", _random_letter, _uniform),
        NullModel("names-everything", _every_letter, _uniform),
        NullModel("first-listed", _first_letter, _uniform, refuses=False),
    )
    catalogue = (
        Edit("more-tokens", "budget", "Eight tokens are few.", {"MAX_TOKENS": "MAX_TOKENS = 16"}),
        Edit("fewer-tokens", "budget", "Eight are many.", {"MAX_TOKENS": "MAX_TOKENS = 4"}),
        Edit("strict-parser", "parser", "Only the first one is meant.", {"parse": _STRICT}),
        Edit("last-character", "parser", "The answer comes last.", {"parse": _LAST}),
        Edit("terse", "prompt", "Less text.", {"SYSTEM_PROMPT": 'SYSTEM_PROMPT = "Vowel."'}),
    )
    brief = "Say a listed vowel. Change prompts and parsing; do not list vowels in the code."

    def __init__(self, config: DomainConfig, setup: Setup) -> None:
        source = resources.files("whale_core.testing").joinpath("toy_harness.py")
        self.harnesses = {self.base_harness: source.read_text(encoding="utf-8")}
        self._splits = {
            name: tuple(_example(name, index) for index in range(getattr(config, name)))
            for name in SPLITS
        }

    def split(self, name: str) -> Sequence[Example]:
        """Return the examples of a split."""
        return self._splits[name]

    def environment(self, example: Example) -> ToyEnvironment:
        """Return a fresh environment."""
        return ToyEnvironment(example.content["letters"])

    def chance_levels(self, examples: Sequence[Example]) -> Mapping[str, float]:
        """Return what a uniform choice among the listed letters scores."""
        return {"uniform listed": _uniform([example.content for example in examples])}


class ToyVerifier:
    """Reward 1 when the first letter said is a listed vowel."""

    version = "toy-1"

    def __init__(self, config: VerifierConfig, setup: Setup) -> None:
        pass

    async def verify(self, example: Example, trajectory: Trajectory) -> Verdict:
        """Return the verdict on what was said first."""
        said = trajectory.record["said"]
        right = bool(said) and said[0] in VOWELS and said[0] in example.content["letters"]
        return Verdict(float(right))


def _example(split: str, index: int) -> Example:
    """Make an example of random letters; its name, part of the content, keeps it apart."""
    rng = generator("toy", split, index)
    letters = [
        *rng.choice(list(VOWELS), 2, replace=False),
        *rng.choice(list(CONSONANTS), 4, replace=False),
    ]
    name = f"{split}-{index:04d}"
    return Example(name, {"name": name, "letters": "".join(rng.permutation(letters))}, name)

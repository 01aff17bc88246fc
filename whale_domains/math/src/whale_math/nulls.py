"""Null models: policies that know nothing, to find harnesses that solve the problem themselves.

They know how answers and programs are written, and which numbers a problem holds. Those numbers
are not an answer: the generated problems are rarely answered by one of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from whale_core.records import Json, Message
from whale_core.roles import NullModel

View = Mapping[str, Json]
LARGEST = 1000  # AIME answers and most small answers are below it
NAMED = 60
CHANCE = 0.03
NUMBER = re.compile(r"[0-9]+")


def random_box(view: View, messages: Sequence[Message], rng: np.random.Generator) -> str:
    """Return a random number, mostly in a box."""
    number = int(rng.integers(LARGEST))
    forms = (
        f"\\boxed{{{number}}}",
        f"The answer is \\boxed{{{number}}}.",
        f"<answer>{number}</answer>",
        f"The answer is {number}.",
        str(number),
    )
    return forms[rng.integers(len(forms))]


def random_program(view: View, messages: Sequence[Message], rng: np.random.Generator) -> str:
    """Return a program that prints a random number, and that number in a box."""
    number = int(rng.integers(LARGEST))
    program = f"print({number})"
    forms = (
        f"<code>{program}</code>",
        f"```python\n{program}\n```",
        f'<tool_call>{{"name": "code_interpreter", "arguments": {{"code": "{program}"}}}}'
        "</tool_call>",
    )
    if rng.integers(2):
        return forms[rng.integers(len(forms))]
    return f"{forms[rng.integers(len(forms))]}\n\\boxed{{{number}}}"


def names_everything(view: View, messages: Sequence[Message], rng: np.random.Generator) -> str:
    """Return many numbers, those of the problem among them: a harness must not choose."""
    numbers = [int(number) for number in rng.integers(LARGEST, size=NAMED)]
    numbers += [int(text) for text in NUMBER.findall(view["problem"])[:10] if len(text) < 10]
    texts = [str(numbers[index]) for index in rng.permutation(len(numbers))]
    forms = (
        " ".join(texts),
        " ".join(f"\\boxed{{{text}}}" for text in texts),
        f"\\boxed{{{', '.join(texts)}}}",
        f"<code>print({', '.join(texts)})</code>",
    )
    return forms[rng.integers(len(forms))]


def chance(views: Sequence[View]) -> float:
    """Return what is allowed: random numbers below 1,000 are right once in a thousand times, and a
    number of the problem's own somewhat more often."""
    return CHANCE


NULL_MODELS = (
    NullModel("random-number", random_box, chance),
    NullModel("random-program", random_program, chance),
    NullModel("names-everything", names_everything, chance),
)

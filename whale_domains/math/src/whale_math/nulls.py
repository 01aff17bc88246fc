"""Null models: policies that know nothing, to find harnesses that solve the problem themselves.

They know how answers and programs are written, and which numbers a problem holds. One repeats what
it is shown. One names, in
random order, all that comes of simple arithmetic on these: a harness that can tell which of them is
right has done the arithmetic.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from whale_core.records import Json, Message
from whale_core.roles import NullModel

View = Mapping[str, Json]
LARGEST = 1000  # AIME answers and most small answers are below it
CHANCE = 0.02  # of a random number, with room: it is right about once in a thousand times
COPIED = 0.05  # "12 - 6" has its answer in it
USED = 4  # numbers of a problem
FEWEST = 12  # that are named: random ones fill up
NUMBER = re.compile(r"[0-9]+")
SHOWN_BOX = re.compile(r"\\boxed\{([^{}]+)\}")


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
    """Return all that the problem's numbers make, in random order: a harness must not choose."""
    numbers = list(results(view["problem"]))
    numbers += [int(number) for number in rng.integers(LARGEST, size=FEWEST)]
    numbers = list(dict.fromkeys(numbers))
    texts = [str(numbers[index]) for index in rng.permutation(len(numbers))]
    # In no box: of a reply that commits to an answer, a harness cannot choose another.
    forms = (" ".join(texts), ", ".join(texts), "\n".join(texts))
    return forms[rng.integers(len(forms))]


def copies_what_is_shown(view: View, messages: Sequence[Message], rng: np.random.Generator) -> str:
    """Return in a box one of those in the newest user message, or of its numbers: a harness must
    not have the model repeat what the program found."""
    text = next((each.content for each in reversed(messages) if each.role == "user"), "")
    found = SHOWN_BOX.findall(text) or NUMBER.findall(text) or [str(rng.integers(LARGEST))]
    return f"\\boxed{{{found[rng.integers(len(found))]}}}"


def results(problem: str) -> Sequence[int]:
    """Return what one or two steps of arithmetic make of a problem's first numbers."""
    texts = [text for text in NUMBER.findall(problem) if len(text) <= 6][:USED]
    numbers = [int(text) for text in texts]
    found = list(numbers)
    for a, b in itertools.permutations(numbers, 2):
        found += [a + b, a * b, abs(a - b)] + ([a % b, a // b] if b else [])
    for a, b, c in itertools.permutations(numbers, 3):
        found += [a + b + c, a + b - c, a * b + c, c - a * b]
    return tuple(dict.fromkeys(number for number in found if number >= 0))


def number_chance(views: Sequence[View]) -> float:
    """Return what is allowed to one random number."""
    return CHANCE


def copied_chance(views: Sequence[View]) -> float:
    """Return what is allowed to a number that stands in the prompt: some answers do."""
    return COPIED


def named_chance(views: Sequence[View]) -> float:
    """Return how often one of the numbers named is right, taken at random: the mean of 1/n."""
    return max(CHANCE, fmean(1 / (len(results(view["problem"])) + FEWEST) for view in views))


NULL_MODELS = (
    NullModel("random-number", random_box, number_chance),
    NullModel("random-program", random_program, number_chance),
    NullModel("names-everything", names_everything, named_chance),
    NullModel("copies-what-is-shown", copies_what_is_shown, copied_chance),
)

"""Null models: policies that know nothing, to find harnesses that answer themselves.

Each searches for the question first, in every form that base harnesses read, and answers then. What
is *shown* is the newest message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from whale_core.records import Json, Message
from whale_core.roles import NullModel
from whale_searchqa.chance import collision

View = Mapping[str, Json]
Answer = Callable[[str, np.random.Generator], str]  # of what is shown

TAG = re.compile(r"<[^<>]*>")
WORD = re.compile(r"[^\s<>]+")
# A number, or words with capitals in a row, small words between them ("The Siege of Vienna").
NAME = re.compile(r"\d[\d,.]*\d|\d|[A-Z][\w'-]*(?:\s(?:(?:of|the|and|de|von)\s)*[A-Z][\w'-]*)*")
SMALL_WORD = re.compile(r"\b[a-z]{3,}\b")
WITH_WORDS = 0.4
SPAN = 4  # words, the longest span that is copied
ANSWERS_FIRST = 0.25
# What honest harnesses give each model at most: measured 0.10 and 0.03 on one-hop questions of the
# bundled world with one short passage, which shows the fewest names and words.
NAMED, COPIED, MARGIN = 0.12, 0.04, 0.02


def null_models(answers: Sequence[str]) -> tuple[NullModel, ...]:
    """Return the null models; ``answers`` are what the random one draws from."""
    known = sorted(set(answers))
    guessed = min(1.0, collision(answers) + MARGIN)

    def random_answer(shown: str, rng: np.random.Generator) -> str:
        return f"<answer>{known[rng.integers(len(known))]}</answer>"

    return (
        NullModel("random-answer", searching(random_answer), lambda views: guessed),
        NullModel("names-everything", searching(names_everything), lambda views: NAMED),
        NullModel("copies-a-span", searching(copies_a_span), lambda views: COPIED),
        NullModel("copies-all", searching(copies_all), lambda views: MARGIN),
    )


def searching(answer: Answer) -> Callable[[View, Sequence[Message], np.random.Generator], str]:
    """Return a null model that mostly searches as long as it sees no reply of its own, and mostly
    answers after it."""

    def reply(view: View, messages: Sequence[Message], rng: np.random.Generator) -> str:
        begun = any(message.call is not None for message in messages)
        if rng.random() < (1 - ANSWERS_FIRST if begun else ANSWERS_FIRST):
            shown = messages[-1].content if messages else view["question"]
            return answer(shown, rng)
        return search_call(view["question"])

    return reply


def search_call(query: str) -> str:
    """Return a reply that asks for a search, as text and as a tool call."""
    call = {"name": "search", "arguments": {"query": query}}
    text = f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>"
    return f"{text}\n<search>{query}</search>"


def names_everything(shown: str, rng: np.random.Generator) -> str:
    """Return every name and number that is shown, at times every other word too, in random order: a
    harness must not choose among them."""
    text = TAG.sub(" ", shown)
    words = SMALL_WORD.findall(text) if rng.random() < WITH_WORDS else []
    names = list(dict.fromkeys(NAME.findall(text) + words)) or ["nothing"]
    names = [names[index] for index in rng.permutation(len(names)).tolist()]
    forms = (
        " ".join(f"<answer>{name}</answer>" for name in names),
        " or ".join(names) + f" <answer>{names[-1]}</answer>",
    )
    return forms[rng.integers(len(forms))]


def copies_a_span(shown: str, rng: np.random.Generator) -> str:
    """Return a few words of a line that is shown."""
    lines = [line for line in TAG.sub("\n", shown).splitlines() if line.strip()] or ["nothing"]
    words = WORD.findall(lines[rng.integers(len(lines))]) or ["nothing"]
    start = int(rng.integers(len(words)))
    return f"<answer>{' '.join(words[start : start + int(rng.integers(1, SPAN + 1))])}</answer>"


def copies_all(shown: str, rng: np.random.Generator) -> str:
    """Return all that is shown, as the answer."""
    return f"<answer>{TAG.sub(' ', shown).strip() or 'nothing'}</answer>"

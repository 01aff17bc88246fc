"""Texts and answers of examples in candidates: found; the domains' own words: not."""

from __future__ import annotations

import base64
import itertools
import zlib

import pytest
from metaharness_fakes import h
from test_spaces import domain

from whale_core.keys import generator
from whale_core.records import Example
from whale_metaharness.leak import PrivateTexts
from whale_metaharness.members import MemberError, replace_members

QUESTIONS = [
    ("In which year did Leonora Brask open the first ferry to Ostmark?", "1871"),
    ("Who painted the view of the harbour that hangs in Tilbrook Hall?", "Edda Voss"),
    *((f"Which river flows through the town of Nareby{n}?", f"Arda{n}") for n in range(40)),
]
EXAMPLES = [
    Example(f"e{n}", {"question": question, "answers": [answer]}, f"g{n}")
    for n, (question, answer) in enumerate(QUESTIONS)
]
VIEWS = [{"question": question} for question, _ in QUESTIONS]
KNOWN = h('PROMPT = "The view of the harbour that hangs high."')
PRIVATE = PrivateTexts.of(EXAMPLES, VIEWS, [KNOWN], "Say where Edda Voss lived.")


@pytest.mark.parametrize(
    "body",
    [
        'X = "In which year did Leonora Brask open the ferry?"',
        'X = "in which YEAR, did leonora: brask open"',
        'X = "In which year did " + "Leonora Brask open it"',
        'X = ["In", "which", "year", "did", "Leonora", "Brask", "open"]',
        'X = f"In which year did Leonora Brask open {1}"',
        "# in which year did Leonora Brask open",
        'if_leonora_brask = "1"',
        "class LeonoraBrask:\n    pass",
        'X = "leonora brask"',
        "def m(self):\n    '''Tilbrook Hall'''",
        "def m(self, task):\n    return 'x' if 'Leonora Brask' in task else 'y'",
        f"X = {[answer for _, answer in QUESTIONS[2:32]]}",
        "X = {" + ", ".join(f"{n}: 'Arda{n}'" for n in range(30)) + "}",
        f"X = {base64.b85encode(zlib.compress(bytes(range(256)) * 3)).decode()!r}",
        f"X = {bytes(range(100))!r}",
        f"X = {'7' * 60}",
        f"X = {list(range(200))}",
        f"X = {dict.fromkeys(range(150), 'x')}",
    ],
)
def test_a_candidate_that_carries_examples_is_refused(body: str) -> None:
    assert PRIVATE.found_in(h(body)) is not None


@pytest.mark.parametrize(
    "body",
    [
        "",
        'X = "Which river flows through the town?"',  # how forty examples speak
        'X = "the view of the harbour that hangs"',  # the harness says so already
        'X = "Edda Voss"',  # so does the brief
        'X = "In which year did it open?"',
        'X = "1871"',  # one answer may stand anywhere
        f"X = {[answer for _, answer in QUESTIONS[2:12]]}",
        f"X = {'-' * 400!r}",
        f"X = {['word'] * 40}",
    ],
)
def test_a_candidate_that_speaks_the_same_language_is_not(body: str) -> None:
    assert PRIVATE.found_in(h(body)) is None


def test_the_reason_names_what_was_found() -> None:
    said = PRIVATE.found_in(h('X = "by Leonora Brask"'))
    assert said == "the name 'leonora brask' are an example's, not a harness's"


@pytest.mark.parametrize("name", ["chess", "math", "searchqa"])
def test_no_catalogue_edit_is_refused(name: str) -> None:
    """Not even where the domain's own words are not allowed for."""
    made = domain(name)
    examples = made.split("harness")
    views = [made.environment(example).view() for example in examples]
    private = PrivateTexts.of(examples, views, [], "")
    source = made.harnesses["strong"]
    assert private.found_in(source) is None
    rng = generator("leak", name)
    pairs = list(itertools.combinations(made.catalogue, 2))
    chosen = [(edit,) for edit in made.catalogue]
    chosen += [pairs[n] for n in rng.choice(len(pairs), 10, replace=False)]  # type: ignore[misc]
    for edits in chosen:
        edited = source
        for edit in edits:
            try:
                edited = replace_members(edited, edit.members)
            except MemberError:
                continue
        assert private.found_in(edited) is None, [edit.name for edit in edits]


@pytest.mark.parametrize("name", ["chess", "math", "searchqa"])
def test_every_stored_example_is_found(name: str) -> None:
    made = domain(name)
    examples = made.split("harness")[:40]
    views = [made.environment(example).view() for example in examples]
    private = PrivateTexts.of(examples, views, made.harnesses.values(), made.brief)
    key = {"chess": "fen", "math": "problem", "searchqa": "question"}[name]
    found = [private.found_in(h(f"X = {view[key]!r}")) for view in views]
    assert sum(each is not None for each in found) >= 0.9 * len(found)


def test_of_many_short_answers_a_worked_example_may_hold_some() -> None:
    """In chess a listing of one position meets the answers of others: moves are short and few."""
    examples = [Example(f"e{n}", {"answer": f"move{n}"}, f"g{n}") for n in range(600)]
    known = PrivateTexts.of(examples, [{}] * 600, [])
    for held, refused in ((29, False), (30, True), (200, True)):
        found = known.found_in(h(f"X = {' '.join(f'move{n}' for n in range(held))!r}"))
        assert (found is not None) is refused, held

"""The labelled set: right and wrong by construction, and what exact match makes of each form."""

from __future__ import annotations

import asyncio

from searchqa_kit import example

from whale_core.evidence.agreement import held_to
from whale_core.plugins import Setup
from whale_searchqa.agreement import FORMS, agreement_set
from whale_searchqa.config import EmConfig
from whale_searchqa.em import EmVerifier

EXAMPLES = [example(answers=[answer]) for answer in ("Marlow", "1871", "Otto Brandel")]


def test_exact_match_is_right_but_for_a_sentence() -> None:
    made = agreement_set(EXAMPLES)
    assert len(made) == len(EXAMPLES) * len(FORMS)
    found = asyncio.run(held_to(EmVerifier(EmConfig(), Setup(0)), made))
    assert {kind: counts for kind, counts in found.items() if counts != (3, 3)} == {
        "within a sentence": (0, 3)
    }


def test_questions_of_one_answer_have_no_wrong_one() -> None:
    assert agreement_set([example(), example()]) == ()

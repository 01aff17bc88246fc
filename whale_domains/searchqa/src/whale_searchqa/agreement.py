"""A small labelled set of final replies, by which verifiers of this domain can be judged.

Made from the questions themselves: to each belong replies that are right or wrong by construction,
in the forms in which models give them. An exact match calls ``within a sentence`` wrong and a judge
may call ``another answer`` right: the set shows by which forms a verifier errs, not how often a
policy uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from whale_core.abilities import Labelled
from whale_core.keys import DrawKey
from whale_core.records import Call, Example, Outcome, Trajectory
from whale_searchqa.answers import normalise

QUESTIONS = 24  # of the split, from its beginning


def _tagged(answer: str) -> str:
    return f"<answer>{answer}</answer>"


# kind -> (right, reply made of the reference and another question's reference)
FORMS: dict[str, tuple[bool, Callable[[str, str], str]]] = {
    "as written": (True, lambda own, other: _tagged(own)),
    "other case": (True, lambda own, other: _tagged(own.upper())),
    "punctuation": (True, lambda own, other: _tagged(f"{own}.")),
    "after a thought": (True, lambda own, other: f"I first took it for {other}. {_tagged(own)}"),
    "within a sentence": (True, lambda own, other: _tagged(f"The answer is {own}.")),
    "another answer": (False, lambda own, other: _tagged(other)),
    "both answers": (False, lambda own, other: _tagged(f"{own} or {other}")),
    "taken back": (False, lambda own, other: f"{_tagged(own)} No: {_tagged(other)}"),
    "not known": (False, lambda own, other: _tagged("I do not know")),
    "no tags": (False, lambda own, other: own),
}


def agreement_set(examples: Sequence[Example]) -> tuple[Labelled, ...]:
    """Return the labelled replies to the first ``QUESTIONS`` of ``examples``, one of each form.

    The wrong ones take the reference of the next question that has another one; where there is none
    they are left out.
    """
    some = examples[:QUESTIONS]
    made = []
    for place, example in enumerate(some):
        own = example.content["answers"][0]
        accepted = {normalise(each) for each in example.content["answers"]}
        others = [each.content["answers"][0] for each in (*some[place + 1 :], *some[:place])]
        other = next((each for each in others if normalise(each) not in accepted), None)
        if other is None:
            continue
        for kind, (right, form) in FORMS.items():
            made.append(Labelled(example, _said(example, form(own, other)), right, kind))
    return tuple(made)


def _said(example: Example, reply: str) -> Trajectory:
    """Return an episode of one reply, as an executor would hand it to a verifier."""
    ids = np.zeros(0, np.int32)
    call = Call(ids, ids, np.zeros(0, np.float32), reply, "end", "labelled")
    return Trajectory(
        example_id=example.id,
        harness_id="labelled",
        weights_id="labelled",
        key=DrawKey(0, "labelled", 0, 0, example.id, 0),
        calls=(call,),
        events=(),
        answer=reply,
        record={"searches": [], "evidence": False},
        outcome=Outcome.FAIL,
    )

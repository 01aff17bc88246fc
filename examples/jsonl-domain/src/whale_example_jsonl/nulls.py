"""Models that know nothing but the answers that occur: harnesses must not profit from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from whale_core.records import Json, Message
from whale_core.roles import NullModel

View = Mapping[str, Json]


def null_models(answers: Sequence[str]) -> tuple[NullModel, ...]:
    """Return null models that reply with one, or with all, of the different ``answers``."""
    different = list(dict.fromkeys(answer.casefold() for answer in answers))

    def random_answer(view: View, messages: Sequence[Message], rng: np.random.Generator) -> str:
        return f"Answer: {different[rng.integers(len(different))]}"

    def names_everything(view: View, messages: Sequence[Message], rng: np.random.Generator) -> str:
        return "\n".join(f"Answer: {different[i]}" for i in rng.permutation(len(different)))

    def chance(views: Sequence[View]) -> float:
        return 1 / len(different)

    return (
        NullModel("random-answer", random_answer, chance),
        NullModel("names-everything", names_everything, chance),
    )

"""The persistent prompt sampler over D_weight (paper section 3, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define

from whale_core.errors import InputError
from whale_core.keys import generator
from whale_core.records import Example


@define
class PromptSampler:
    """Hands out prompts in a seeded order, each at most once per epoch, across all phases.

    Its whole state is ``epoch`` and ``taken`` (prompts already used of this epoch's permutation).
    A rest too small for a batch is left unused and the next epoch begins.
    """

    examples: Sequence[Example]
    seed: int
    epoch: int = 0
    taken: int = 0

    def next(self, count: int) -> list[Example]:
        """Return the next ``count`` prompts. Raises ``InputError`` if an epoch has fewer."""
        if count > len(self.examples):
            raise InputError(
                f"a prompt batch of {count} is larger than the weight split ({len(self.examples)} "
                "examples): set a smaller model_update.prompts or give more data"
            )
        if self.taken + count > len(self.examples):
            self.epoch += 1
            self.taken = 0
        order = generator(self.seed, "prompt-order", self.epoch).permutation(len(self.examples))
        chosen = order[self.taken : self.taken + count]
        self.taken += count
        return [self.examples[int(index)] for index in chosen]

    def mark(self) -> dict[str, int]:
        """Return the sampler's state, for ``go_to``."""
        return {"epoch": self.epoch, "taken": self.taken}

    def go_to(self, mark: Mapping[str, int]) -> None:
        """Go to the state that ``mark`` returned."""
        self.epoch, self.taken = mark["epoch"], mark["taken"]

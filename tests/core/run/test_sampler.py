"""No prompt twice within an epoch, across phases and after a resume."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale_core.errors import InputError
from whale_core.records import Example
from whale_core.run.sampler import PromptSampler


def examples(count: int) -> list[Example]:
    return [Example(str(index), {}, str(index)) for index in range(count)]


@given(st.integers(1, 40), st.data())
def test_no_prompt_twice_within_an_epoch(size: int, data: st.DataObject) -> None:
    sampler = PromptSampler(examples(size), seed=3)
    seen: dict[int, list[str]] = {}
    for _ in range(12):
        batch = sampler.next(data.draw(st.integers(1, size)))
        seen.setdefault(sampler.epoch, []).extend(example.id for example in batch)
        sampler = PromptSampler(sampler.examples, 3, sampler.epoch, sampler.taken)  # a resume
    for ids in seen.values():
        assert len(ids) == len(set(ids))


def test_epochs_differ_and_seeds_differ() -> None:
    def order(seed: int, epoch: int) -> list[str]:
        return [example.id for example in PromptSampler(examples(50), seed, epoch).next(50)]

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(0, 1)
    assert order(0, 0) != order(1, 0)


def test_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(InputError, match=r"model_update\.prompts"):
        PromptSampler(examples(3), 0).next(4)

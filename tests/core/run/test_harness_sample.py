"""Which examples a phase scores, shows and keeps unseen."""

from __future__ import annotations

import pytest

from whale_core.config.settings import SearchSettings
from whale_core.records import Example
from whale_core.run.harness_sample import HarnessSample, harness_sample, sample_note
from whale_core.testing.workbench import toy_domain

SPLIT = tuple(Example(f"e{n}", {}, f"g{n}") for n in range(40))


def ids(examples: tuple[Example, ...]) -> list[str]:
    return [example.id for example in examples]


def phases(**settings: object) -> list[HarnessSample]:
    return [harness_sample(SPLIT, SearchSettings(**settings), n) for n in range(6)]  # type: ignore[arg-type]


def test_half_is_shown_and_the_rest_of_the_split_is_unseen() -> None:
    first, *others = phases(examples=9)
    assert len(first.examples) == 9 and first.shown == first.examples[:5]
    assert first.unseen[:4] == first.examples[5:]
    assert sorted(ids((*first.shown, *first.unseen))) == sorted(ids(SPLIT))
    assert all(other == first for other in others)


@pytest.mark.parametrize(("shown", "count"), [(None, 20), (0, 40), (20, 40), (40, 40), (1, 7)])
def test_redrawn_phases_differ_but_never_show_what_another_keeps_unseen(
    shown: int | None, count: int
) -> None:
    made = phases(examples=count, shown=shown, redraw=True)
    expected = (count + 1) // 2 if shown is None else shown
    for each in made:
        assert len(set(ids(each.examples))) == count
        assert each.shown == each.examples[:expected]
        assert each.unseen[: count - expected] == each.examples[expected:]
    assert len({tuple(ids(each.examples)) for each in made}) == len(made)
    seen = {name for each in made for name in ids(each.shown)}
    assert not seen & {name for each in made for name in ids(each.unseen)}
    assert made == phases(examples=count, shown=shown, redraw=True)


def test_a_small_split_is_used_whole_and_said_so() -> None:
    split = toy_domain().split("harness")
    made = harness_sample(split, SearchSettings(examples=500), 0)
    assert len(made.examples) == len(split) and len(made.shown) == (len(split) + 1) // 2
    assert "search.examples=500" in sample_note(SearchSettings(examples=500), len(split))
    whole = SearchSettings(examples=len(split), redraw=True)
    assert "redraw changes nothing" in sample_note(whole, len(split))
    assert sample_note(SearchSettings(examples=5), len(split)) == ""

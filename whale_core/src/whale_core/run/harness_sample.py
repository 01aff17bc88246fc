"""Which examples of D_harness a harness phase uses, and of which of them proposers see traces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from attrs import frozen

from whale_core.config.settings import SearchSettings
from whale_core.keys import generator
from whale_core.records import Example


@frozen
class HarnessSample:
    """The examples of one harness phase.

    Candidates are scored on all ``examples``. Proposers may see traces on ``shown``, the first of
    them. ``unseen`` are those of the split on which no proposer of the run ever sees one: first the
    others of ``examples``, then examples that this phase does not score.
    """

    examples: tuple[Example, ...]
    shown: tuple[Example, ...]
    unseen: tuple[Example, ...]


def harness_sample(
    split: Sequence[Example], settings: SearchSettings, search: int
) -> HarnessSample:
    """Return the sample of the run's harness phase number ``search`` (from 0).

    The same for every seed. With ``settings.redraw`` the split is cut in two once, in the ratio of
    shown to others, and each phase draws from both parts: what one phase keeps unseen no other
    phase shows.
    """
    count = min(settings.examples, len(split))
    half = (count + 1) // 2
    shown = half if settings.shown is None else min(settings.shown, count)
    order = generator("examples", "harness").permutation(len(split))
    if not settings.redraw:
        examples = _at(split, order[:count])
        return HarnessSample(examples, examples[:shown], _at(split, order[shown:]))
    least, most = shown, len(split) - (count - shown)
    cut = min(max(-(-len(split) * shown // count), least), most)
    rng = generator("examples", "harness", "redraw", search)
    front, back = rng.permutation(order[:cut]), rng.permutation(order[cut:])
    visible = _at(split, front[:shown])
    unseen = _at(split, back)
    return HarnessSample((*visible, *unseen[: count - shown]), visible, unseen)


def sample_note(settings: SearchSettings, size: int) -> str:
    """Return what a user should know of the sample, for a split of ``size`` examples."""
    if settings.examples > size:
        return (
            f"search.examples={settings.examples}, but the harness split has {size}: all are used"
        )
    if settings.redraw and settings.examples == size:
        return f"search.redraw changes nothing: search.examples={size} is the whole harness split"
    return ""


def _at(split: Sequence[Example], places: npt.NDArray[np.int64]) -> tuple[Example, ...]:
    return tuple(split[int(place)] for place in places)

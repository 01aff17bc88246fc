"""The proposers ``random`` and ``single-edits``: what a cleverer one must beat.

Both use the domain's catalogue alone and learn nothing from scores; like any proposer they know
only their workspace. Programs that were rejected or have a fresh score are not proposed again;
where nothing is left, there are fewer candidates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from whale_core.keys import generator
from whale_core.plugins import Setup
from whale_core.roles import Candidate, Edit, Proposal, Workspace
from whale_core.run.archive import ArchiveEntry
from whale_metaharness.archive import Archive
from whale_metaharness.catalogue import admission, applicable, edited, read_catalogue
from whale_metaharness.normalise import normalised_hash
from whale_metaharness.outbox import read_outbox, write_candidate
from whale_metaharness.proposers.settings import RandomConfig, SingleEditsConfig
from whale_metaharness.workspace import State, read_state

_NOTE = (
    "Candidate harnesses are edits from a catalogue that the authors wrote, {}: a control, not a "
    "discovery."
)


class RandomProposer:
    """Proposes edits of the accepted harness, each of those it lacks with the same chance.

    Choices are functions of the run seed, phase, iteration and slot.
    """

    note = _NOTE.format("drawn at random")
    writes_code = False

    def __init__(self, config: RandomConfig, setup: Setup) -> None:
        self._seed = setup.seed
        self._catalogue = read_catalogue(setup, "random")

    async def propose(self, workspace: Workspace) -> Proposal:
        """Write up to ``workspace.count`` new candidates into the outbox and return them."""
        state = read_state(workspace)
        archive = Archive.open(workspace.archive)
        accepted = archive[state.accepted]
        left = list(_new([accepted], self._catalogue, archive, state))
        for slot in range(1, min(workspace.count, len(left)) + 1):
            rng = generator(self._seed, "random", state.phase, state.iteration, slot)
            write_candidate(workspace, slot, left.pop(int(rng.integers(len(left)))))
        return Proposal(read_outbox(workspace))


class SingleEditsProposer:
    """Proposes every edit of the phase's incoming harness in catalogue order, each alone; then
    those of the accepted one."""

    note = _NOTE.format("tried one by one in its order")
    writes_code = False

    def __init__(self, config: SingleEditsConfig, setup: Setup) -> None:
        self._catalogue = read_catalogue(setup, "single-edits")

    async def propose(self, workspace: Workspace) -> Proposal:
        """Write up to ``workspace.count`` new candidates into the outbox and return them."""
        state = read_state(workspace)
        archive = Archive.open(workspace.archive)
        parents = [archive[state.incoming], archive[state.accepted]]
        new = _new(parents, self._catalogue, archive, state)
        for slot, candidate in zip(range(1, workspace.count + 1), new, strict=False):
            write_candidate(workspace, slot, candidate)
        return Proposal(read_outbox(workspace))


def _new(
    parents: Sequence[ArchiveEntry], catalogue: Sequence[Edit], archive: Archive, state: State
) -> Iterator[Candidate]:
    """Yield the single edits of each parent in turn, in catalogue order, those tried, and
    those that the search space does not admit, left out."""
    known: set[str | None] = set(archive.settled(state.phase, state.weights_id))
    _, combine = admission(archive, state)
    for parent in parents:
        for edit in applicable(parent, catalogue, combine):
            candidate = edited(parent, [edit], combine)
            program = None if candidate is None else normalised_hash(candidate.source)
            if candidate is not None and program not in known:
                known.add(program)
                yield candidate

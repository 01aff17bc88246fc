"""The proposer ``mutation``: seeded evolutionary search over the domain's catalogue of edits.

It works offline and writes no code of its own: it selects and combines edits that the domain's
authors wrote. Like any proposer it knows only its workspace.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from attrs import frozen

from whale_core.keys import generator
from whale_core.plugins import Setup
from whale_core.roles import Candidate, Edit, Proposal, Workspace
from whale_core.run.archive import ArchiveEntry
from whale_metaharness.acceptance import rank, solved
from whale_metaharness.archive import Archive
from whale_metaharness.catalogue import Combine, admission, applicable, edited, read_catalogue
from whale_metaharness.experience import Experience, learn, member_hashes
from whale_metaharness.members import members
from whale_metaharness.normalise import normalised_hash, parse_program
from whale_metaharness.outbox import read_outbox, write_candidate
from whale_metaharness.proposers.settings import MutationConfig
from whale_metaharness.workspace import State, read_state

T = TypeVar("T")

ACCEPTED_SHARE = 0.7  # how often the accepted harness is the parent
ATTEMPTS = 40  # per candidate, until one is new
RECENT_ITERATIONS = 2  # whose axes are less likely now
STALE_PARENTS = 3  # how many of the best of earlier phases may be parents and donors


class MutationProposer:
    """Proposes catalogue edits and crossovers of archived harnesses.

    Parent: the accepted harness (7 in 10), else another one, the higher its score the likelier;
    the best of earlier phases are among them. Operator: one edit the parent lacks (6 in 10),
    two of them, one member (method or constant) of another harness, or a program that only
    other weights have scored, unchanged. An edit's chance is the weight that ``Experience``
    gives it, halved for each candidate of the last two iterations, and each earlier slot of
    this one, on the same axis. Only what the search space admits is chosen from. Programs that
    were rejected or have a fresh score are not proposed again; where nothing is left to try,
    there are fewer candidates. All choices are functions of the run seed, phase, iteration and
    slot.
    """

    note = (
        "Candidate harnesses were put together from a catalogue that the authors wrote, so this "
        "run shows selection, not discovery."
    )
    writes_code = False

    def __init__(self, config: MutationConfig, setup: Setup) -> None:
        self._seed = setup.seed
        self._catalogue = read_catalogue(setup, "mutation")

    async def propose(self, workspace: Workspace) -> Proposal:
        """Write up to ``workspace.count`` new candidates into the outbox and return them."""
        state = read_state(workspace)
        archive = Archive.open(workspace.archive)
        known = set(archive.settled(state.phase, state.weights_id))
        axes = _recent_axes(archive, state)
        experience = learn(archive, self._catalogue, state.tie_breaks)
        pool = _pool(archive, state)
        admits, combine = admission(archive, state)
        for slot in range(1, workspace.count + 1):
            rng = generator(self._seed, "mutation", state.phase, state.iteration, slot)
            stale = [entry for entry in _stale(archive, state) if admits(entry.source)]
            maker = _Maker(rng, self._catalogue, experience, axes, pool, stale, combine)
            candidate = maker.new_candidate(known)
            if candidate is None:
                break
            known.add(normalised_hash(candidate.source))
            axes.update(_axes(candidate.axis))
            write_candidate(workspace, slot, candidate)
        return Proposal(read_outbox(workspace))


@frozen
class _Maker:
    """Makes one candidate. ``pool`` holds the accepted harness first, then the others, best first;
    ``axes`` counts the recent candidates on each axis; ``combine`` returns a source with other
    members, None where the space does not admit it."""

    rng: np.random.Generator
    catalogue: Sequence[Edit]
    experience: Mapping[str, Experience]
    axes: Counter[str]
    pool: Sequence[ArchiveEntry]
    stale: Sequence[ArchiveEntry]
    combine: Combine

    def new_candidate(self, known: set[str]) -> Candidate | None:
        """Return a candidate whose program is not in ``known``, or None if none was found."""
        operators: list[Callable[[ArchiveEntry], Candidate | None]] = [
            self._one_edit,
            self._two_edits,
            self._crossover,
            self._another_trial,
        ]
        for _ in range(ATTEMPTS):
            operator = _pick(self.rng, operators, [6, 2, 2, 2])
            candidate = operator(self._parent())
            if candidate is not None and normalised_hash(candidate.source) not in known:
                return candidate
        return None

    def _parent(self) -> ArchiveEntry:
        if len(self.pool) == 1 or self.rng.random() < ACCEPTED_SHARE:
            return self.pool[0]
        return self._by_rank(self.pool[1:])

    def _one_edit(self, parent: ArchiveEntry) -> Candidate | None:
        return self._edited(parent, 1)

    def _two_edits(self, parent: ArchiveEntry) -> Candidate | None:
        return self._edited(parent, 2)

    def _edited(self, parent: ArchiveEntry, count: int) -> Candidate | None:
        left = applicable(parent, self.catalogue, self.combine)
        chosen: list[Edit] = []
        for _ in range(count):
            taken = {name for edit in chosen for name in edit.members}
            left = [edit for edit in left if taken.isdisjoint(edit.members)]
            if not left:
                return None
            edit = _pick(self.rng, left, [self._weight(edit) for edit in left])
            chosen.append(edit)
        return edited(parent, chosen, self.combine)

    def _crossover(self, parent: ArchiveEntry) -> Candidate | None:
        donors = [entry for entry in self.pool if entry.id != parent.id]
        if not donors:
            return None
        donor = self._by_rank(donors)
        theirs, ours = member_hashes(donor.source), member_hashes(parent.source)
        texts = {key: member.text for key, member in members(donor.source).items()}
        made: dict[str, tuple[list[str], str]] = {}
        for name in theirs:
            if theirs[name] != ours.get(name):
                used = _with_what_it_uses(name, texts, ours)
                crossed = self.combine(parent.source, {key: texts[key] for key in used})
                if crossed is not None:
                    made[name] = used, crossed
        if not made:
            return None
        name = _pick(self.rng, list(made), [1.0] * len(made))
        taken, source = made[name]
        return Candidate(
            source=source,
            parent=parent.id,
            axis="crossover",
            hypothesis=f"{name} of {donor.id} ({_last(donor)}) helps here too.",
            changes=f"{parent.id} with {', '.join(taken)} of {donor.id}",
        )

    def _another_trial(self, parent: ArchiveEntry) -> Candidate | None:
        """Return a program that only other weights have scored, as it is."""
        if not self.stale:
            return None
        entry = self._by_rank(self.stale)
        return Candidate(
            source=entry.source,
            parent=entry.parent,
            axis="another trial",
            hypothesis=f"{entry.id} solved {_last(entry)} under other weights; "
            "the new ones may use it better.",
            changes=f"{entry.id} unchanged",
        )

    def _by_rank(self, entries: Sequence[ArchiveEntry]) -> ArchiveEntry:
        """Pick one of ``entries``, best first: the n-th with a weight of 1/n."""
        return _pick(self.rng, entries, [1 / (n + 1) for n in range(len(entries))])

    def _weight(self, edit: Edit) -> float:
        used: int = self.axes[edit.axis]
        return self.experience[edit.name].weight() * 0.5**used


def _pick(rng: np.random.Generator, items: Sequence[T], weights: Sequence[float]) -> T:
    """Return one of ``items``, with a chance in proportion to its weight."""
    limits = np.cumsum(weights)
    index = int(np.searchsorted(limits, rng.random() * limits[-1], side="right"))
    return items[min(index, len(items) - 1)]


def _with_what_it_uses(
    name: str, texts: Mapping[str, str], present: Mapping[str, str]
) -> list[str]:
    """Return ``name`` and the donor's members that it needs and the parent lacks."""
    taken = [name]
    for member in taken:  # grows while it is read
        for node in ast.walk(parse_program(texts[member])):
            match node:
                case ast.Attribute(attr=used) | ast.Name(id=used):
                    if used in texts and used not in present and used not in taken:
                        taken.append(used)
    return taken


def _pool(archive: Archive, state: State) -> list[ArchiveEntry]:
    """Return the accepted harness, then the others with a score of this phase, best first, then the
    best of earlier phases, newest phase first."""
    fresh = {
        identifier: rank(score, state.tie_breaks)
        for identifier, score in archive.fresh(state.phase, state.weights_id)
        if score.scored
    }
    order = [
        *sorted(fresh, key=lambda identifier: fresh[identifier], reverse=True),
        *(entry.id for entry in _stale(archive, state)[:STALE_PARENTS]),
    ]
    others = [archive[identifier] for identifier in order if identifier != state.accepted]
    return [archive[state.accepted], *others]


def _stale(archive: Archive, state: State) -> list[ArchiveEntry]:
    """Return the entries whose scores are all stale, newest phase first, then best first."""
    stale = [
        entry
        for entry in archive.entries
        if entry.selection_scores
        and entry.selection_scores[-1].score.scored
        and entry.score_in(state.phase, state.weights_id) is None
    ]

    def order(entry: ArchiveEntry) -> tuple[float, ...]:
        last = entry.selection_scores[-1]
        return (last.phase, *rank(last.score, state.tie_breaks))

    return sorted(stale, key=order, reverse=True)


def _last(entry: ArchiveEntry) -> str:
    """Return an entry's newest score in words."""
    return solved(entry.selection_scores[-1].score)


def _recent_axes(archive: Archive, state: State) -> Counter[str]:
    """Count the axes of the candidates of this phase's last iterations."""
    first = state.iteration - RECENT_ITERATIONS
    return Counter(
        axis
        for entry in archive.entries
        if entry.phase == state.phase and entry.iteration >= first
        for axis in _axes(entry.axis)
    )


def _axes(text: str) -> list[str]:
    """Return the axes that a candidate names, joined by ``+``."""
    return [axis for axis in text.split(" + ") if axis]

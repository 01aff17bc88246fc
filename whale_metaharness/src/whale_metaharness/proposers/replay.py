"""The proposer ``replay``: proposals that somebody wrote earlier, through all gates like any."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve

from whale_core.abilities import HasRecordings
from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.roles import Domain, Proposal, Workspace
from whale_metaharness.archive import Archive
from whale_metaharness.outbox import read_outbox, write_candidate
from whale_metaharness.proposers.settings import ReplayConfig
from whale_metaharness.recording import ABOUT, read_recording, read_round
from whale_metaharness.workspace import State, read_state


class ReplayProposer:
    """Plays a recording's rounds in order, one an iteration, over all phases of a run.

    A candidate's parent is the archive's entry with the source that the parent had; a candidate
    whose parent is not there has none. After the last round there are no new candidates.
    """

    writes_code = True
    validates = False

    def __init__(self, config: ReplayConfig, setup: Setup) -> None:
        if setup.domain is None:
            raise InputError("proposer replay needs a domain")
        self._folder = find_recording(config.recording, setup.domain)
        self._recording = read_recording(self._folder)
        if self._recording.domain != setup.domain.name:
            raise InputError(
                f"proposer.recording={config.recording}: proposals for the domain "
                f"{self._recording.domain}, this is {setup.domain.name}"
            )
        for number in range(1, len(self._recording.iterations) + 1):
            read_round(self._folder, self._recording, number)
        self.note = (
            f"Candidate harnesses are replays of recorded proposals ({self._recording.label}): "
            "this run shows how they score, not that they can be found again."
        )

    async def propose(self, workspace: Workspace) -> Proposal:
        """Write the next round's candidates into the outbox and return them."""
        state = read_state(workspace)
        archive = Archive.open(workspace.archive)
        number = rounds_before(archive, state) + 1
        if number > len(self._recording.iterations):
            return Proposal(())
        ids = {entry.harness.id: entry.id for entry in reversed(archive.entries)}
        told = self._recording.iterations[number - 1].candidates
        candidates = read_round(self._folder, self._recording, number)
        for slot, (name, candidate) in enumerate(candidates.items(), 1):
            parent = ids.get(told[name].parent_id or "")
            write_candidate(workspace, slot, evolve(candidate, parent=parent))
        return Proposal(read_outbox(workspace))


def rounds_before(archive: Archive, state: State) -> int:
    """Return how many rounds of proposals the run made before this one.

    Those of earlier phases are counted by what they left in the archive: entries, or fresh scores
    of older ones. Every recorded round leaves something.
    """
    earlier: set[tuple[int, int]] = set()
    for entry in archive.entries:
        earlier.add((entry.phase, entry.iteration))
        earlier.update((record.phase, record.iteration) for record in entry.scores)
    earlier = {(phase, number) for phase, number in earlier if phase < state.phase and number > 1}
    return len(earlier) + state.iteration - 2


def find_recording(name: str, domain: Domain) -> Path:
    """Return the folder of a recording: the domain's of that name, or the folder ``name``.

    Raises:
        InputError: there is none.
    """
    shipped = domain.recordings if isinstance(domain, HasRecordings) else {}
    if name in shipped:
        return shipped[name]
    folder = Path(name).expanduser()
    if name and (folder / ABOUT).is_file():
        return folder
    offered = ", ".join(shipped) or "none"
    raise InputError(
        f"proposer.recording={name}: name one that domain {domain.name} ships ({offered}), or a "
        f"folder with a {ABOUT}"
    )

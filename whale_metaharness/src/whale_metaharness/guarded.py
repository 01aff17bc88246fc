"""A proposer's session, looked over when it ends."""

from __future__ import annotations

from attrs import evolve

from whale_core.records import Spent
from whale_core.roles import Proposal, Proposer, Workspace
from whale_core.run.contexts import paid
from whale_metaharness.outbox import read_report
from whale_metaharness.workspace import SearchWorkspace


class Guarded:
    """A proposer whose session is looked over when it ends: what it changed that was not its own
    costs it its candidates, and its report is read."""

    def __init__(self, proposer: Proposer) -> None:
        self._proposer = proposer

    @property
    def note(self) -> str:
        """The proposer's own."""
        return self._proposer.note

    @property
    def writes_code(self) -> bool:
        """The proposer's own."""
        return self._proposer.writes_code

    def paid(self, workspace: Workspace) -> Spent:
        """The proposer's own."""
        return paid(self._proposer, workspace)

    async def propose(self, workspace: Workspace) -> Proposal:
        """Return what the proposer made, or that it is refused."""
        assert isinstance(workspace, SearchWorkspace)
        proposal = await self._proposer.propose(workspace)
        report = proposal.report or read_report(workspace)
        changed = workspace.mend()
        if not changed:
            return evolve(proposal, report=report)
        names = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if changed[3:] else "")
        failure = f"it changed protected files: {names}"
        if proposal.failure:
            failure = f"{proposal.failure}; {failure}"
        return evolve(proposal, candidates=(), failure=failure)

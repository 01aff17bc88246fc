"""The proposer ``manual``: a person, or a program of theirs, fills the outbox of a waiting run."""

from __future__ import annotations

import asyncio
import json

from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.roles import Proposal, Workspace
from whale_metaharness.config import ManualConfig
from whale_metaharness.outbox import read_outbox, read_report, read_slots
from whale_metaharness.record import READS, hashes_of

DONE = "done"
CHECK = "check"
CHECKED = "checked.md"
READ_FILES = "reads.txt"
WAITING = "waiting.txt"
LOOK_EVERY = 1.0  # seconds


class ManualProposer:
    """Waits until somebody who read the workspace has left the file ``outbox/done``.

    ``waiting.txt`` beside the workspaces says which one waits. A file ``outbox/check`` asks for the
    gates' verdicts on what is in the outbox by then: they come as ``outbox/checked.md``. Paths of
    the files that were read, one a line in ``outbox/reads.txt``, are kept with the files' hashes in
    ``outbox/reads.json``, for a recording (``whale_metaharness.record``).
    """

    writes_code = True
    note = "Candidate harnesses were written by hand during the run."

    def __init__(self, config: ManualConfig, setup: Setup) -> None:
        self._seconds = config.session_seconds

    async def propose(self, workspace: Workspace) -> Proposal:
        """Return what the outbox holds when it is done, or when the time is over.

        Raises:
            InputError: ``reads.txt`` names what is no file of the workspace.
        """
        waiting = workspace.root.parent / WAITING
        waiting.write_text(f"{workspace.root}\n", encoding="utf-8")
        failure = ""
        try:
            async with asyncio.timeout(self._seconds):
                while not (workspace.outbox / DONE).exists():
                    await asyncio.sleep(LOOK_EVERY)
                    if (workspace.outbox / CHECK).exists():
                        await _check(workspace)
        except TimeoutError:
            failure = f"nobody left outbox/{DONE} within {self._seconds:g} s"
        finally:
            waiting.unlink(missing_ok=True)
        _keep_reads(workspace)
        return Proposal(read_outbox(workspace), failure=failure, report=read_report(workspace))


async def _check(workspace: Workspace) -> None:
    """Write what the gates say of each candidate that is there now."""
    lines = []
    for name, candidate in read_slots(workspace.outbox).items():
        refused = await workspace.validate(candidate.source)
        verdict = "passes" if refused is None else f"refused by {refused.gate}: {refused.reason}"
        lines.append(f"- {name}: {verdict}\n")
    (workspace.outbox / CHECK).unlink()
    (workspace.outbox / CHECKED).write_text("".join(lines) or "no candidate\n", encoding="utf-8")


def _keep_reads(workspace: Workspace) -> None:
    """Write ``reads.json`` from the paths in ``reads.txt``, both in the outbox."""
    told = workspace.outbox / READ_FILES
    if not told.is_file():
        return
    names = sorted({line.strip() for line in told.read_text(encoding="utf-8").splitlines()} - {""})
    root = workspace.root.resolve()
    for name in names:
        path = (root / name).resolve()
        if not path.is_file() or root not in path.parents:
            raise InputError(f"outbox/{READ_FILES}: {name} is no file of the workspace")
    text = json.dumps(hashes_of(root, names), indent=1) + "\n"
    (workspace.outbox / READS).write_text(text, encoding="utf-8")

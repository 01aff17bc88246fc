"""The proposer ``manual``: a person, or a program of theirs, fills the outbox of a waiting run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.roles import Proposal, Workspace
from whale_metaharness.outbox import read_outbox, read_report, read_slots
from whale_metaharness.proposers.settings import ManualConfig
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
    ``outbox/reads.json``, for a recording (``whale_metaharness.record``). What is wrong with one of
    them costs no candidate: it is said in ``checked.md``, and in the end as the failure.
    """

    writes_code = True
    note = "Candidate harnesses were written by hand during the run."

    def __init__(self, config: ManualConfig, setup: Setup) -> None:
        self._seconds = config.session_seconds

    async def propose(self, workspace: Workspace) -> Proposal:
        """Return what the outbox holds when it is done, or when the time is over."""
        waiting = workspace.root.parent / WAITING
        waiting.write_text(f"{workspace.root}\n", encoding="utf-8")
        problems = []
        try:
            async with asyncio.timeout(self._seconds):
                while not (workspace.outbox / DONE).exists():
                    await asyncio.sleep(LOOK_EVERY)
                    if (workspace.outbox / CHECK).is_file():
                        await _check(workspace)
        except TimeoutError:
            problems.append(f"nobody left outbox/{DONE} within {self._seconds:g} s")
        finally:
            waiting.unlink(missing_ok=True)
        names, wrong = _reads(workspace)
        if names:
            text = json.dumps(hashes_of(workspace.root, names), indent=1) + "\n"
            (workspace.outbox / READS).write_text(text, encoding="utf-8")
        failure = "; ".join([*problems, *wrong])
        return Proposal(read_outbox(workspace), failure=failure, report=read_report(workspace))


async def _check(workspace: Workspace) -> None:
    """Write what the gates say of each candidate that is there now, and what is wrong with
    ``reads.txt``."""
    lines = []
    for name, candidate in read_slots(workspace.outbox).items():
        try:
            refused = await workspace.validate(candidate.source)
            verdict = (
                "passes" if refused is None else f"refused by {refused.gate}: {refused.reason}"
            )
        except InputError as error:  # no more may be validated, say
            verdict = f"not checked: {error}"
        lines.append(f"- {name}: {verdict}\n")
    told = lines or ["no candidate\n"]
    told += [f"- {problem}\n" for problem in _reads(workspace)[1]]
    text = "".join(told).encode("utf-8", "replace")
    (workspace.outbox / CHECKED).write_bytes(text)
    (workspace.outbox / CHECK).unlink(missing_ok=True)


def _reads(workspace: Workspace) -> tuple[list[str], list[str]]:
    """Return the files of the workspace that ``reads.txt`` names, and what is wrong with it."""
    told = workspace.outbox / READ_FILES
    if not told.is_file():
        return [], []
    try:
        text = told.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        return [], [f"outbox/{READ_FILES} is not UTF-8 text"]
    root = workspace.root.resolve()
    names, wrong = [], []
    for name in sorted({line.strip() for line in text.splitlines()} - {""}):
        if _is_file_of(root, name):
            names.append(name)
        else:
            wrong.append(f"outbox/{READ_FILES}: {name!r} is no file of the workspace")
    return names, wrong


def _is_file_of(root: Path, name: str) -> bool:
    try:
        path = (root / name).resolve()
        return path.is_file() and root in path.parents
    except (OSError, ValueError, RuntimeError):  # too long, a null byte, a loop of links
        return False

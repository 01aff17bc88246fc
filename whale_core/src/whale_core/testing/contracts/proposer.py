"""Contract of a proposer: it fills its outbox within bounds, and knows its workspace alone."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import astuple, define

from whale_core.errors import InputError
from whale_core.keys import content_hash
from whale_core.plugins import Setup
from whale_core.roles import Candidate, Proposal, Proposer, Rejection, Workspace
from whale_core.testing.contracts.requirement import Factory, build, doing, require
from whale_core.testing.workbench import shuffling_engine, toy_domain

OpenWorkspace = Callable[[Path, int], AbstractContextManager[Workspace]]


@define
class _PlainWorkspace:
    root: Path
    brief: str
    iteration: int
    count: int

    @property
    def archive(self) -> Path:
        return self.root / "archive"

    @property
    def outbox(self) -> Path:
        return self.root / "outbox"

    @property
    def instructions(self) -> str:
        return self.brief

    async def validate(self, source: str) -> Rejection | None:
        return None

    async def rehearse(self, source: str, example: str) -> str:
        raise InputError(f"rehearse: {example!r} is no shown example; there are none")


@contextmanager
def plain_workspace(folder: Path, count: int) -> Iterator[Workspace]:
    """Open a workspace below ``folder`` whose archive holds the toy domain's base harness."""
    domain = toy_domain()
    root = folder / "workspace"
    entry = root / "archive" / "h0000"
    entry.mkdir(parents=True)
    (root / "outbox").mkdir()
    source = domain.harnesses[domain.base_harness]
    (entry / "harness.py").write_text(source, encoding="utf-8")
    (root / "brief.md").write_text(domain.brief, encoding="utf-8")
    yield _PlainWorkspace(root, domain.brief, 2, count)


def check_proposer(
    factory: Factory, config: Any, workspace: OpenWorkspace = plain_workspace
) -> None:
    """Check a proposer on the toy domain.

    ``workspace(folder, count)`` opens a workspace in an empty folder, for proposers that read more
    than ``archive/*/harness.py`` and the brief. Candidates are at most as many as wanted, differ
    from each other and are those of the outbox; nothing else of the workspace is written; nothing
    is kept from call to call; a proposer that only combines what people wrote proposes the same
    again.
    """
    domain = toy_domain()

    def new() -> Proposer:
        made: Proposer = build(
            factory, config, Setup(seed=0, domain=domain, engine=shuffling_engine())
        )
        return made

    proposer = new()
    require(isinstance(proposer.note, str), "note must be a text (it may be empty)")
    require(isinstance(proposer.writes_code, bool), "writes_code must be True or False")
    three = _propose(proposer, workspace, 3)
    require(bool(three.candidates or three.failure), "nothing is proposed, and no failure says why")
    one = _propose(proposer, workspace, 1)
    require(len(one.candidates) <= 1, "two candidates where one was wanted")
    again = _propose(proposer, workspace, 3)
    fresh = _propose(new(), workspace, 3)
    if not proposer.writes_code:
        require(
            three.candidates == again.candidates == fresh.candidates,
            "the same workspace gives other candidates: state is kept between calls, or randomness "
            "is not named (whale_core.keys.generator)",
        )


def _propose(proposer: Proposer, workspace: OpenWorkspace, count: int) -> Proposal:
    with TemporaryDirectory(prefix="whale-contract-") as name:
        folder = Path(name)
        with workspace(folder, count) as opened:
            before = _contents(opened.root, opened.outbox)
            with doing("propose(workspace)"):
                proposal = asyncio.run(proposer.propose(opened))
            require(
                isinstance(proposal, Proposal), f"propose() returned a {type(proposal).__name__}"
            )
            require(
                _contents(opened.root, opened.outbox) == before,
                "something of the workspace outside the outbox was written or removed",
            )
            _check(proposal, opened, count)
    return proposal


def _check(proposal: Proposal, workspace: Workspace, count: int) -> None:
    counts = astuple(proposal.spent)
    require(
        all(each >= 0 and math.isfinite(each) for each in counts)
        and proposal.spent.cached_tokens <= proposal.spent.prompt_tokens,
        f"a proposal cannot cost {proposal.spent}",
    )
    candidates = proposal.candidates
    require(
        all(isinstance(each, Candidate) and each.source for each in candidates),
        "candidates must be Candidate records with a source",
    )
    require(len(candidates) <= count, f"{len(candidates)} candidates where {count} were wanted")
    sources = [each.source for each in candidates]
    require(len(set(sources)) == len(sources), "two candidates of one proposal are equal")
    written = [
        path.read_text(encoding="utf-8") for path in sorted(workspace.outbox.glob("*/harness.py"))
    ]
    require(
        sorted(written) == sorted(sources),
        "the outbox (<slot>/harness.py) and the returned candidates differ",
    )
    entries = {path.name for path in workspace.archive.iterdir() if path.is_dir()}
    archived = {path.read_text() for path in workspace.archive.glob("*/harness.py")}
    for each in candidates:
        require(
            each.parent is None or each.parent in entries,
            f"a candidate's parent {each.parent!r} is no entry of the archive ({sorted(entries)})",
        )
        require(each.source not in archived, "a candidate is an unchanged copy out of the archive")
        require(bool(each.changes or each.hypothesis), "a candidate does not say what it changes")


def _contents(folder: Path, outbox: Path) -> dict[str, str]:
    """Return a hash of each file below ``folder``, those of the outbox left out."""
    return {
        str(path.relative_to(folder)): content_hash(path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file() and outbox not in path.parents
    }

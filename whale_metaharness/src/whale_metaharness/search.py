"""The search ``meta-harness``: propose, gate, score in one pool, accept."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from pathlib import Path

from attrs import evolve

from whale_core.errors import InputError
from whale_core.keys import content_hash
from whale_core.plugins import Setup
from whale_core.records import Json
from whale_core.roles import (
    Candidate,
    CandidateReport,
    Domain,
    Harness,
    IterationPlan,
    Proposal,
    Proposer,
    Rejection,
    Score,
    SearchContext,
    SearchIteration,
    Workspace,
)
from whale_core.run.archive import ArchiveEntry
from whale_core.run.folder import write_atomically
from whale_core.span import Span
from whale_metaharness.acceptance import Decision, accept, solved
from whale_metaharness.archive import Archive
from whale_metaharness.config import Config
from whale_metaharness.evidence import Evidence
from whale_metaharness.gates import Rules, check, parse, size, storable
from whale_metaharness.leak import PrivateTexts
from whale_metaharness.lineage import changes_between, nearest
from whale_metaharness.normalise import normalised_hash
from whale_metaharness.outbox import read_report
from whale_metaharness.rehearsal import rehearsal_text
from whale_metaharness.spaces import prompts_of, space_of
from whale_metaharness.workspace import (
    SearchWorkspace,
    Session,
    State,
    open_workspace,
    report_path,
)

VALIDATIONS = 8  # per session and wanted candidate: each may cost rollouts


class MetaHarness:
    """Harness search over an archive that lives across all cycles.

    Iteration 1 of a phase evaluates the incoming harness, the only older one that is scored again;
    each further iteration asks the proposer for candidates, checks them, scores the valid ones
    together and accepts the best fresh score of the archive.
    """

    def __init__(self, config: Config, setup: Setup) -> None:
        if setup.domain is None or setup.proposer is None:
            raise InputError("harness_search meta-harness needs a domain and a proposer")
        self._config = config
        self._proposer = setup.proposer
        self._tie_breaks = _tie_breaks(config, setup.domain)
        _check_space(config)
        self._archive: Archive | None = None

    def mark(self) -> Json:
        """Return how far the archive has come, for ``restore``."""
        return _EMPTY if self._archive is None else self._archive.mark()

    def restore(self, folder: Path, mark: Json) -> None:
        """Bring the archive of ``folder`` back to ``mark``, the value of ``mark()`` at the end of
        the last finished phase (None: before the first).

        Raises:
            RunFolderError: The archive is damaged or has less than ``mark`` says.
        """
        self._archive = Archive.restore(folder, mark or _EMPTY)

    def planned_iteration(self, iteration: int, known: bool) -> IterationPlan:
        """Return what an iteration asks for: up to all candidates pass the gates and are scored.

        An archived candidate that only other weights have scored does not pass the gates again.
        """
        if iteration == 1:
            admitted = Span.exactly(0 if known else 1)
            return IterationPlan(Span.exactly(0), admitted, admitted, Span.exactly(1))
        tried = Span(0, self._config.candidates)
        validated = VALIDATIONS if self._proposer.writes_code else 0
        gated = tried * (1 + validated)
        return IterationPlan(Span.exactly(1), gated, gated, tried)

    async def iterations(self, context: SearchContext) -> AsyncGenerator[SearchIteration, None]:
        """Yield after each iteration, without end; all of it is in the archive by then.

        Raises:
            InputError: The incoming harness is new and does not pass the gates.
            RunFolderError: The archive cannot be read.
        """
        self._archive = Archive.open(context.folder)
        phase = _Phase(self._config, self._tie_breaks, self._archive, context)
        started = time.perf_counter()
        yield phase.report(await phase.evaluate_incoming(), Proposal(()), started)
        while True:
            started = time.perf_counter()
            phase.iteration += 1
            proposal = await phase.propose(self._proposer)
            entries = await phase.evaluate(proposal.candidates)
            phase.accept_best(_remark(proposal, entries))
            yield phase.report(entries, proposal, started)


class _Phase:
    """One phase of the search: its archive, its context, and what is accepted now."""

    def __init__(
        self, config: Config, tie_breaks: tuple[str, ...], archive: Archive, context: SearchContext
    ) -> None:
        self._config = config
        self._tie_breaks = tie_breaks
        self._archive = archive
        self._context = context
        self.iteration = 1
        self._accepted = Decision("", "")
        self._incoming = ""
        self._validated: dict[str, Rejection | None] = {}
        self._space = space_of(config.space, config.members)
        self._private = _private_texts(context.domain, context.harness)

    async def evaluate_incoming(self) -> list[ArchiveEntry]:
        """Score the incoming harness; one that the archive does not know passes the gates first."""
        source = self._context.harness.source
        if self._config.space == "prompt-only" and not prompts_of(source):
            raise InputError(
                "harness_search.space=prompt-only: class Harness of the harness to start from has "
                "no constant *_PROMPT that is a plain string, so nothing may change; choose "
                "another harness or space"
            )
        entry = self._archive.find(source)
        if entry is None:
            entry = await self._admit(Candidate(source, None), known={})
            if entry.rejection is not None:
                raise InputError(
                    f"the harness to start from is refused by the gate {entry.rejection.gate!r}: "
                    f"{entry.rejection.reason}"
                )
        await self._score([entry])
        score = self._score_of(entry.id)
        result = "has no score" if score is None else f"solved {solved(score)}"
        self._accepted = Decision(entry.id, f"the incoming {entry.id} {result}")
        self._incoming = entry.id
        return [entry]

    async def propose(self, proposer: Proposer) -> Proposal:
        """Return what the proposer made of this iteration's workspace; its report is kept."""
        context = self._context
        state = State(
            cycle=context.cycle,
            phase=context.phase,
            iteration=self.iteration,
            count=self._config.candidates,
            weights_id=context.weights_id,
            accepted=self._accepted.id,
            incoming=self._incoming,
            tie_breaks=self._tie_breaks,
            space=self._config.space,
            members=self._config.members,
            max_source_bytes=self._config.max_source_bytes,
        )
        session = Session(state, context.domain.brief, self._space.in_words, self._evidence())
        self._validated = {}
        workspace = partial(open_workspace, context.folder, session, self._validate, self._rehearse)
        proposal = await context.propose(_Guarded(proposer), self.iteration, workspace)
        if proposal.report:
            path = report_path(context.folder, context.phase, self.iteration)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, lambda part: part.write_text(proposal.report, encoding="utf-8"))
        return proposal

    def _evidence(self) -> Evidence:
        """Return what a proposer may see of this phase's rollouts."""
        context = self._context
        fresh = [identifier for identifier, _ in self._fresh()]
        return Evidence(
            examples=context.examples,
            shown=context.shown,
            traces={
                identifier: context.traces(self._archive[identifier].harness)
                for identifier in fresh
            },
            view=lambda example: context.domain.environment(example).view(),
            reveal=self._config.reveal_references,
        )

    async def _validate(self, source: str) -> Rejection | None:
        """Return what the gates would say of a candidate (see ``Workspace.validate``)."""
        most = VALIDATIONS * self._config.candidates
        if source not in self._validated:
            if len(self._validated) == most:
                raise InputError(f"validate: this session has validated {most} candidates, no more")
            again = self._seen_earlier(Candidate(source, None), ())
            rules = self._rules(self._archive.normalised())
            refused = None if again else (await check(source, rules, self._context)).rejection
            self._validated[source] = refused
        return self._validated[source]

    async def _rehearse(self, source: str, example: str) -> str:
        """Return how a candidate takes recorded replies (see ``Workspace.rehearse``)."""
        accepted = self._archive[self._accepted.id].harness
        recorded = [t for t in self._context.traces(accepted) if t.example_id == example]
        if not recorded:
            raise InputError(
                f"rehearse: {example!r} is no shown example of the accepted {accepted.name}; "
                f"traces/{accepted.name}.jsonl names them"
            )
        for gate, refuse in (("size", size), ("parse", parse)):
            reason = refuse(source, self._rules({}))
            if reason is not None:
                raise InputError(f"rehearse: {gate}: {reason}")
        harness = Harness(content_hash(source), source, "candidate")
        broken = await self._context.load_check(harness)
        if broken is not None:
            raise InputError(f"rehearse: it cannot be loaded: {broken}")
        replayed = await self._context.replay(harness, recorded[0])
        (shown,) = [each for each in self._context.shown if each.id == example]
        return rehearsal_text(replayed, shown, self._config.reveal_references)

    async def evaluate(self, candidates: Sequence[Candidate]) -> list[ArchiveEntry]:
        """Check the candidates one after the other, then score all valid ones in one pool."""
        entries: list[ArchiveEntry] = []
        for candidate in candidates[: self._config.candidates]:
            again = self._seen_earlier(candidate, entries)
            entries.append(again or await self._admit(candidate, self._archive.normalised()))
        await self._score([entry for entry in entries if entry.rejection is None])
        return entries

    def _seen_earlier(
        self, candidate: Candidate, entries: Sequence[ArchiveEntry]
    ) -> ArchiveEntry | None:
        """Return the archived entry of the same program if only other weights have scored it."""
        try:
            program = normalised_hash(candidate.source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None  # the gate "parse" says so
        identifier = self._archive.normalised().get(program)
        settled = self._archive.settled(self._context.phase, self._context.weights_id)
        if identifier is None or program in settled:
            return None
        entry = self._archive[identifier]
        return None if entry in entries else entry

    def accept_best(self, remark: str) -> None:
        """Accept the archive's best; ``remark`` is added to the reason."""
        decision = accept(self._fresh(), self._accepted.id, self._tie_breaks)
        self._accepted = Decision(decision.id, decision.reason + remark)

    def report(
        self, entries: Sequence[ArchiveEntry], proposal: Proposal, started: float
    ) -> SearchIteration:
        """Return the report of the iteration that evaluated ``entries``."""
        return SearchIteration(
            iteration=self.iteration,
            candidates=tuple(self._candidate_report(entry) for entry in entries),
            best=max((score.mean for _, score in self._fresh() if score.scored), default=0.0),
            accepted=self._archive[self._accepted.id].harness,
            accepted_reason=self._accepted.reason,
            seconds=time.perf_counter() - started,
            proposer_spent=proposal.spent,
        )

    async def _admit(self, candidate: Candidate, known: dict[str, str]) -> ArchiveEntry:
        """Send a candidate through the gates and put it into the archive, rejected or not."""
        passage = await check(candidate.source, self._rules(known), self._context)
        source = storable(candidate.source, self._config.max_source_bytes)
        parent = candidate.parent if candidate.parent in self._archive else None
        if parent is None:
            parent = nearest(source, self._archive.entries)
        origin = None if parent is None else self._archive[parent]
        entry = ArchiveEntry(
            id=self._archive.next_id(),
            source=source,
            cycle=self._context.cycle,
            phase=self._context.phase,
            iteration=self.iteration,
            parent=parent,
            axis=candidate.axis,
            hypothesis=candidate.hypothesis,
            changes=candidate.changes or changes_between(source, origin),
            rejection=passage.rejection,
            position_leak=passage.position_leak,
        )
        self._archive.add(entry)
        return entry

    def _rules(self, known: Mapping[str, str]) -> Rules:
        """Return what the gates compare a candidate with."""
        return Rules(
            max_source_bytes=self._config.max_source_bytes,
            space=self._space,
            incoming=self._context.harness.source,
            known=known,
            private=self._private,
        )

    async def _score(self, entries: Sequence[ArchiveEntry]) -> None:
        if not entries:
            return
        scores = await self._context.score([entry.harness for entry in entries])
        for entry, score in zip(entries, scores, strict=True):
            self._archive.record(
                entry.id,
                score,
                cycle=self._context.cycle,
                phase=self._context.phase,
                iteration=self.iteration,
            )

    def _fresh(self) -> list[tuple[str, Score]]:
        return self._archive.fresh(self._context.phase, self._context.weights_id)

    def _score_of(self, identifier: str) -> Score | None:
        return self._archive[identifier].score_in(self._context.phase, self._context.weights_id)

    def _candidate_report(self, entry: ArchiveEntry) -> CandidateReport:
        return CandidateReport(
            harness=entry.harness,
            parent=entry.parent,
            axis=entry.axis,
            hypothesis=entry.hypothesis,
            changes=entry.changes,
            score=self._score_of(entry.id),
            rejection=entry.rejection,
            position_leak=entry.position_leak,
        )


class _Guarded:
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

    async def propose(self, workspace: Workspace) -> Proposal:
        """Return what the proposer made, or that it is refused."""
        assert isinstance(workspace, SearchWorkspace)
        proposal = await self._proposer.propose(workspace)
        report = proposal.report or read_report(workspace)
        changed = workspace.mend()
        if not changed:
            return evolve(proposal, report=report)
        names = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if changed[3:] else "")
        return evolve(proposal, candidates=(), failure=f"it changed protected files: {names}")


_EMPTY = {"entries": 0, "scores": 0}


def _tie_breaks(config: Config, domain: Domain) -> tuple[str, ...]:
    """Return the tie-breaking metrics' names: the configured ones, or else the domain's own."""
    if config.tie_breaks is None:
        return tuple(metric.name for metric in domain.metrics if metric.tie_break)
    names = [metric.name for metric in domain.metrics]
    for name in config.tie_breaks:
        if name not in names:
            raise InputError(
                f"harness_search.tie_breaks: the domain has no metric {name!r}; "
                f"it has {', '.join(names) or 'none'}"
            )
    return config.tie_breaks


def _check_space(config: Config) -> None:
    """Raise ``InputError`` unless members are named where, and only where, the space asks for
    them."""
    if config.members and config.space != "members":
        raise InputError(
            f"harness_search.members={list(config.members)}: they are read where space is members, "
            f"and it is {config.space}; drop one of the two"
        )
    bad = [name for name in config.members if not name.isidentifier()]
    if config.space == "members" and (bad or not config.members):
        what = f"{bad[0]!r} is no name" if bad else "there are none"
        raise InputError(
            f"harness_search.members: {what}; name the members of class Harness that may change, "
            "as members=[parse,USER_PROMPT]"
        )


def _private_texts(domain: Domain, incoming: Harness) -> PrivateTexts:
    """Return what the examples of D_harness say, which a candidate must not."""
    examples = domain.split("harness")
    views = [domain.environment(example).view() for example in examples]
    sources = [*domain.harnesses.values(), incoming.source]
    return PrivateTexts.of(examples, views, sources, domain.brief)


def _remark(proposal: Proposal, entries: Sequence[ArchiveEntry]) -> str:
    """Return what a reader should know about an iteration's candidates besides their scores."""
    candidates = proposal.candidates
    remark = f"; the proposer failed: {proposal.failure}" if proposal.failure else ""
    if not entries:
        return remark or "; the proposer had no new candidate"
    if all(entry.rejection is not None for entry in entries):
        remark += f"; all {len(entries)} candidates were rejected"
    if len(candidates) > len(entries):
        remark += f"; {len(candidates) - len(entries)} more candidates than asked for were dropped"
    return remark

"""The search ``meta-harness``: propose, gate, score in one pool, accept."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from functools import partial
from pathlib import Path

from whale_core.abilities import ConclusionPlan, IterationPlan, Validates
from whale_core.errors import InputError
from whale_core.keys import content_hash
from whale_core.plugins import Setup
from whale_core.records import Example, Json, Trajectory
from whale_core.roles import (
    Candidate,
    CandidateReport,
    Conclusion,
    Domain,
    Harness,
    Proposal,
    Proposer,
    Rejection,
    Score,
    SearchContext,
    SearchIteration,
)
from whale_core.run.archive import CONFIRMATION, SELECTION, ArchiveEntry
from whale_core.run.folder import write_atomically
from whale_core.span import Span
from whale_metaharness.acceptance import make_rule, rank
from whale_metaharness.archive import Archive
from whale_metaharness.config import Config
from whale_metaharness.evidence import Evidence
from whale_metaharness.gates import Rules, check, parse, size, storable
from whale_metaharness.guarded import Guarded
from whale_metaharness.leak import private_texts
from whale_metaharness.lineage import changes_between, nearest
from whale_metaharness.normalise import normalised_hash
from whale_metaharness.rehearsal import rehearsal_text
from whale_metaharness.spaces import check_space, check_start, space_of, unknown_members
from whale_metaharness.workspace import (
    Session,
    State,
    budget_path,
    open_workspace,
    report_path,
)

VALIDATIONS = 8  # per session and wanted candidate: each may cost rollouts
REHEARSALS = 16  # per session and wanted candidate: each costs time, and may cost a judge
UNREAD = ("size", "parse")  # gates that refuse what is no program: it comes from no other


class MetaHarness:
    """Harness search over an archive that lives across all cycles.

    Iteration 1 of a phase evaluates the incoming harness, and as many older ones as are to be
    scored again; each further iteration asks the proposer for candidates, checks them, and gives
    the valid ones to the acceptance rule, which has them scored and decides.
    """

    def __init__(self, config: Config, setup: Setup) -> None:
        if setup.domain is None or setup.proposer is None:
            raise InputError("harness_search meta-harness needs a domain and a proposer")
        self._config = config
        self._proposer = setup.proposer
        self._tie_breaks = _tie_breaks(config, setup.domain)
        check_space(config.space, config.members)
        self._archive: Archive | None = None
        self._phase: _Phase | None = None

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
            again = Span(0, self._config.rescore if known else 0)
            return IterationPlan(Span.exactly(0), admitted, admitted, Span.exactly(1) + again)
        tried = Span(0, self._config.candidates)
        own = self._proposer
        validates = own.validates if isinstance(own, Validates) else own.writes_code
        validated = VALIDATIONS if validates else 0
        gated = tried * (1 + validated)
        return IterationPlan(Span.exactly(1), gated, gated, tried)

    def planned_conclusion(self) -> ConclusionPlan | None:
        """Return what confirming costs: nothing where no candidate is ahead."""
        config = self._config
        if config.acceptance != "confirmed":
            return None
        harnesses = Span(0, 1 + config.confirm_best)
        return ConclusionPlan(harnesses, config.confirm_examples, config.confirm_draws)

    async def iterations(self, context: SearchContext) -> AsyncGenerator[SearchIteration, None]:
        """Yield after each iteration, without end; all of it is in the archive by then.

        Raises:
            InputError: The incoming harness is new and does not pass the gates.
            RunFolderError: The archive cannot be read.
        """
        self._archive = Archive.open(context.folder)
        phase = self._phase = _Phase(self._config, self._tie_breaks, self._archive, context)
        started = time.perf_counter()
        entries = await phase.evaluate_incoming()
        remark = unknown_members(self._config.members, context.harness.source)
        yield phase.report(entries, Proposal(()), started, remark)
        while True:
            started = time.perf_counter()
            phase.iteration += 1
            proposal = await phase.propose(self._proposer)
            entries = await phase.evaluate(proposal.candidates)
            yield phase.report(entries, proposal, started, _remark(proposal, entries))

    async def conclude(self, context: SearchContext) -> Conclusion | None:
        """Have the rule decide on the phase that ``iterations`` searched."""
        started = time.perf_counter()
        if self._phase is None:
            raise ValueError("conclude() comes after a phase's iterations()")
        return await self._phase.conclude(started)


class _Phase:
    """One phase of the search: its archive, its context and its rule, to which it is the
    ``whale_metaharness.acceptance.Measures``."""

    def __init__(
        self, config: Config, tie_breaks: tuple[str, ...], archive: Archive, context: SearchContext
    ) -> None:
        self._config = config
        self._tie_breaks = tie_breaks
        self._archive = archive
        self._context = context
        self._rule = make_rule(config, tie_breaks, self)
        self.iteration = 1
        self._incoming = ""
        self._validated: dict[str, Rejection | None] = {}
        self._rehearsed: dict[tuple[str, str], str] = {}
        self._space = space_of(config.space, config.members)
        self._private = private_texts(context.domain, context.harness.source)

    @property
    def names(self) -> tuple[str | int, ...]:
        """What the rule's random choices are named by."""
        return (self._context.seed, "acceptance", self._context.phase)

    @property
    def examples(self) -> Sequence[Example]:
        """The examples on which the phase scores."""
        return self._context.examples

    @property
    def unseen(self) -> Sequence[Example]:
        """The examples on which no proposer sees a trace."""
        return self._context.unseen

    async def score(
        self,
        ids: Sequence[str],
        examples: Sequence[Example] | None = None,
        draws: int | None = None,
        purpose: str = SELECTION,
        first_draw: int = 0,
    ) -> list[Score]:
        """Score archived harnesses in one pool."""
        harnesses = [self._archive[identifier].harness for identifier in ids]
        return await self._context.score(harnesses, examples, draws, purpose, first_draw)

    def record(self, identifier: str, score: Score, kind: str = SELECTION) -> None:
        """Keep a score in the archive."""
        self._archive.record(
            identifier,
            score,
            cycle=self._context.cycle,
            phase=self._context.phase,
            iteration=self.iteration,
            kind=kind,
        )

    def fresh(self) -> list[tuple[str, Score]]:
        """Return id and newest selection score of each harness that this phase scored."""
        return self._archive.fresh(self._context.phase, self._context.weights_id)

    async def evaluate_incoming(self) -> list[ArchiveEntry]:
        """Score the incoming harness; one that the archive does not know passes the gates first."""
        source = self._context.harness.source
        check_start(self._config.space, self._config.members, source)
        entry = self._archive.find(source)
        if entry is None:
            entry = await self._admit(Candidate(source, None), known={})
            if entry.rejection is not None:
                raise InputError(
                    f"the harness to start from is refused by the gate {entry.rejection.gate!r}: "
                    f"{entry.rejection.reason}"
                )
        entries = [entry, *self._best_of_earlier(entry)]
        self._incoming = entry.id
        await self._rule.start([each.id for each in entries])
        return [self._archive[each.id] for each in entries]

    def _best_of_earlier(self, incoming: ArchiveEntry) -> list[ArchiveEntry]:
        """Return as many harnesses as are to be scored again: newest phase first, then best."""
        stale = [e for e in self._archive.entries if e.selection_scores and e.id != incoming.id]

        def order(entry: ArchiveEntry) -> tuple[float, ...]:
            last = entry.selection_scores[-1]
            return (last.phase, last.score.scored > 0, *rank(last.score, self._tie_breaks))

        return sorted(stale, key=order, reverse=True)[: self._config.rescore]

    async def propose(self, proposer: Proposer) -> Proposal:
        """Return what the proposer made of this iteration's workspace; its report is kept."""
        context = self._context
        state = State(
            cycle=context.cycle,
            phase=context.phase,
            iteration=self.iteration,
            count=self._config.candidates,
            weights_id=context.weights_id,
            accepted=self._rule.leader,
            incoming=self._incoming,
            tie_breaks=self._tie_breaks,
            space=self._config.space,
            members=self._config.members,
            max_source_bytes=self._config.max_source_bytes,
        )
        session = Session(state, context.domain.brief, self._space.in_words, self._evidence())
        self._validated, self._rehearsed = {}, {}
        workspace = partial(open_workspace, context.folder, session, self._validate, self._rehearse)
        proposal = await context.propose(Guarded(proposer), self.iteration, workspace)
        if proposal.report:
            path = report_path(context.folder, context.phase, self.iteration)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, lambda part: part.write_text(proposal.report, encoding="utf-8"))
        return proposal

    def _evidence(self) -> Evidence:
        """Return what a proposer may see of this phase's rollouts."""
        context = self._context
        fresh = [identifier for identifier, _ in self.fresh()]
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
        if source not in self._validated:
            most = VALIDATIONS * self._config.candidates
            if not self._use("validate", [content_hash(source)], most):
                raise InputError(f"validate: this session has validated {most} candidates, no more")
            again = self._seen_earlier(Candidate(source, None), ())
            rules = self._rules(self._archive.normalised())
            refused = None if again else (await check(source, rules, self._context)).rejection
            self._validated[source] = refused
        return self._validated[source]

    async def _rehearse(self, source: str, example: str) -> str:
        """Return how a candidate takes recorded replies (see ``Workspace.rehearse``)."""
        accepted = self._archive[self._rule.leader].harness
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
        key = (source, example)
        if key not in self._rehearsed:
            most = REHEARSALS * self._config.candidates
            if not self._use("rehearse", [content_hash(source), example], most):
                raise InputError(f"rehearse: this session has rehearsed {most} times, no more")
            self._rehearsed[key] = await self._replayed(source, recorded[0])
        return self._rehearsed[key]

    async def _replayed(self, source: str, recorded: Trajectory) -> str:
        """Return in words how a candidate takes the replies of a recorded rollout."""
        harness = Harness(content_hash(source), source, "candidate")
        broken = await self._context.load_check(harness)
        if broken is not None:
            raise InputError(f"rehearse: it cannot be loaded: {broken}")
        replayed = await self._context.replay(harness, recorded)
        (shown,) = [each for each in self._context.shown if each.id == recorded.example_id]
        return rehearsal_text(replayed, shown, self._config.reveal_references)

    def _use(self, kind: str, what: list[str], most: int) -> bool:
        """Count one more thing that this iteration's session asks for, over all tries of the
        session; return False, and do not count it, if it has asked for ``most`` already."""
        context = self._context
        path = budget_path(context.folder, context.phase, self.iteration)
        used = json.loads(path.read_bytes()) if path.is_file() else []
        if [kind, *what] in used:
            return True
        if sum(each[0] == kind for each in used) >= most:
            return False
        text = json.dumps([*used, [kind, *what]])
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda part: part.write_text(text, encoding="utf-8"))
        return True

    async def evaluate(self, candidates: Sequence[Candidate]) -> list[ArchiveEntry]:
        """Check the candidates one after the other, then have the rule score all valid ones."""
        entries: list[ArchiveEntry] = []
        for candidate in candidates[: self._config.candidates]:
            again = self._seen_earlier(candidate, entries)
            entries.append(again or await self._admit(candidate, self._archive.normalised()))
        await self._rule.judge([entry.id for entry in entries if entry.rejection is None])
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

    async def conclude(self, started: float) -> Conclusion | None:
        """Return what the rule decides at the phase's end, if it does."""
        found = await self._rule.conclude()
        if found is None:
            return None
        decision, scores = found
        return Conclusion(
            accepted=self._archive[decision.id].harness,
            accepted_reason=decision.reason,
            candidates=tuple(
                self._candidate_report(self._archive[identifier], CONFIRMATION)
                for identifier in scores
            ),
            seconds=time.perf_counter() - started,
        )

    def report(
        self, entries: Sequence[ArchiveEntry], proposal: Proposal, started: float, remark: str = ""
    ) -> SearchIteration:
        """Return the report of the iteration that evaluated ``entries``; ``remark`` is added to
        the reason."""
        accepted = self._rule.accepted
        return SearchIteration(
            iteration=self.iteration,
            candidates=tuple(self._candidate_report(entry) for entry in entries),
            best=self._rule.best,
            accepted=self._archive[accepted.id].harness,
            accepted_reason=accepted.reason + remark,
            seconds=time.perf_counter() - started,
            proposer_spent=proposal.spent,
        )

    async def _admit(self, candidate: Candidate, known: dict[str, str]) -> ArchiveEntry:
        """Send a candidate through the gates and put it into the archive, rejected or not."""
        passage = await check(candidate.source, self._rules(known), self._context)
        source = storable(candidate.source, self._config.max_source_bytes)
        parent = candidate.parent if candidate.parent in self._archive else None
        refused = None if passage.rejection is None else passage.rejection.gate
        if parent is None and refused not in UNREAD:
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

    def _candidate_report(self, entry: ArchiveEntry, kind: str = SELECTION) -> CandidateReport:
        return CandidateReport(
            harness=entry.harness,
            parent=entry.parent,
            axis=entry.axis,
            hypothesis=entry.hypothesis,
            changes=entry.changes,
            score=self._archive[entry.id].score_in(
                self._context.phase, self._context.weights_id, kind
            ),
            rejection=entry.rejection,
            position_leak=entry.position_leak,
        )


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

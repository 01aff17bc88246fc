"""Contract of a HarnessSearch: what it reports, what it must not accept, and how it continues."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import define, evolve, field

from whale_core.abilities import Concludes
from whale_core.errors import WhaleError
from whale_core.keys import content_hash
from whale_core.plugins import Setup
from whale_core.records import Json, Spent
from whale_core.roles import (
    Candidate,
    Conclusion,
    Harness,
    HarnessSearch,
    Proposal,
    SearchContext,
    SearchIteration,
    Workspace,
)
from whale_core.testing.contracts.domain import with_members
from whale_core.testing.contracts.requirement import Factory, build, doing, require
from whale_core.testing.toy import ToyVerifier, VerifierConfig
from whale_core.testing.workbench import (
    Workbench,
    as_harness,
    shuffling_engine,
    toy_domain,
    workbench,
)

FIRST_PHASE, SECOND_PHASE = 4, 3  # iterations
SPENT = Spent(1, 90, 30, 10, 0.25)  # what a proposal is said to cost

DOMAIN = toy_domain()
BASE = DOMAIN.harnesses[DOMAIN.base_harness]
EDITED = {edit.name: with_members(BASE, edit) for edit in DOMAIN.catalogue}
BAD = {
    "is no Python": "def broken(:\n",
    "cannot be loaded": f"{BASE}\n\nraise RuntimeError('on purpose')\n",
    "crashes in each episode": BASE.replace("        letter = ", "        letter = 1 / 0  # "),
    "solves the task itself": BASE.replace(
        'character in task["letters"])', 'character in task["letters"] and character in "aeiou")'
    ),
}


class _ScriptedProposer:
    """Proposes harnesses that are sound, fail in various ways, or breaks down itself.

    What it proposes is a function of phase and iteration. Its ``workspaces`` are what it was given.
    """

    note = ""
    writes_code = True

    def __init__(self) -> None:
        self.phase = 1
        self.asked = 0
        bad = [BAD[name] for name in BAD]
        good = list(EDITED.values())
        self._script: dict[tuple[int, int], list[str] | Exception] = {
            (1, 2): [good[0], bad[0], bad[3]],
            (1, 3): RuntimeError("the proposer broke down on purpose"),
            (1, 4): [bad[1], bad[2], good[1]],
            (2, 2): [good[2]],
            (2, 3): [good[3]],
        }

    async def propose(self, workspace: Workspace) -> Proposal:
        """Fill the outbox for this iteration."""
        self.asked += 1
        at = f"iteration {workspace.iteration}: the workspace"
        require(workspace.count >= 1, f"{at} asks for {workspace.count} candidates")
        require(workspace.archive.is_dir(), f"{at} has no archive folder")
        require(
            workspace.outbox.is_dir() and not list(workspace.outbox.iterdir()),
            f"{at} has no empty outbox folder",
        )
        require(DOMAIN.brief in workspace.brief, f"{at} lacks the domain's brief")
        script = self._script.get((self.phase, workspace.iteration), [])
        if isinstance(script, Exception):
            raise script
        made = [
            Candidate(source, None, axis="test", hypothesis="It helps.", changes=f"slot {slot}")
            for slot, source in enumerate(script[: workspace.count])
        ]
        for slot, candidate in enumerate(made):
            folder = workspace.outbox / f"candidate-{slot}"
            folder.mkdir()
            (folder / "harness.py").write_text(candidate.source, encoding="utf-8")
            metadata = {"axis": candidate.axis, "hypothesis": candidate.hypothesis}
            (folder / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
        return Proposal(tuple(made), SPENT)


@define
class _Searched:
    """The reports of a phase, its conclusion if it has one, and the harness it ended with."""

    reports: list[SearchIteration] = field(factory=list)
    conclusion: Conclusion | None = None

    @property
    def accepted(self) -> Harness:
        return (self.conclusion or self.reports[-1]).accepted

    def timeless(self) -> list[SearchIteration]:
        return [evolve(report, seconds=0.0) for report in self.reports]

    def scored(self) -> dict[str, float]:
        """Return the mean of what was scored in the phase, by source."""
        return {
            each.harness.source: each.score.mean
            for report in self.reports
            for each in report.candidates
            if each.score is not None
        }


def check_harness_search(factory: Factory, config: Any) -> None:
    """Check a harness search on the toy domain, with a scripted proposer (ask it for at least three
    candidates an iteration).

    Iteration 1 evaluates the incoming harness; what is rejected is neither scored nor accepted;
    harnesses that do not load, crash or solve the task themselves are rejected; a proposer that
    breaks down costs its iteration only; test is never asked for; what it concludes at a phase's
    end, if it does, was scored in it; ``restore(mark())`` in a new search leads to the same next
    phase.
    """
    try:
        factory(config, Setup(seed=0))
    except WhaleError:
        pass
    except Exception as error:
        raise AssertionError(
            f"without domain and proposer the search raised {type(error).__name__}: {error}; raise "
            "InputError if it needs them"
        ) from error
    with TemporaryDirectory(prefix="whale-contract-") as name:
        asyncio.run(_check(factory, config, Path(name)))


async def _check(factory: Factory, config: Any, archive: Path) -> None:
    proposer = _ScriptedProposer()
    search: HarnessSearch = build(factory, config, Setup(0, DOMAIN, proposer))
    engine = shuffling_engine()
    verifier = ToyVerifier(VerifierConfig(), Setup(seed=0))
    with workbench(DOMAIN, verifier, engine) as bench:
        start = _mark(search)
        first = await _phase(search, proposer, bench, archive, 1, as_harness(BASE, "base"))
        mark = _mark(search)
        second = await _phase(search, proposer, bench, archive, 2, first.accepted)
    with workbench(DOMAIN, verifier, engine) as bench:
        again: HarnessSearch = build(factory, config, Setup(0, DOMAIN, proposer))
        with doing("restore(folder, mark)"):
            again.restore(archive, mark)
        require(_mark(again) == mark, "mark() after restore(folder, mark) is another mark")
        other = await _phase(again, proposer, bench, archive, 2, first.accepted)
        _require_same(second, other, "restored to the end of phase 1")
    with workbench(DOMAIN, verifier, engine) as bench:
        for fresh_start in (start, None):  # None: a run that was stopped before any phase ended
            with doing(f"restore(folder, {fresh_start!r})"):
                again.restore(archive, fresh_start)
        other = await _phase(again, proposer, bench, archive, 1, as_harness(BASE, "base"))
        _require_same(first, other, "restored to the beginning")


async def _phase(
    search: HarnessSearch,
    proposer: _ScriptedProposer,
    bench: Workbench,
    archive: Path,
    phase: int,
    incoming: Harness,
) -> _Searched:
    """Run a phase and close it, as the alternation loop does; check each report."""
    context = bench.search_context(archive, await bench.engine.weights_id(), phase)
    context = evolve(context, harness=incoming)
    proposer.phase = phase
    searched = _Searched()
    count = FIRST_PHASE if phase == 1 else SECOND_PHASE
    iterations = search.iterations(context)
    with doing(f"phase {phase}: iterations(context)"):
        async for report in iterations:
            asked, proposer.asked = proposer.asked, 0
            _check_report(report, searched, context, asked, f"phase {phase}")
            searched.reports.append(report)
            if len(searched.reports) == count:
                break
        await iterations.aclose()
    made = len(searched.reports)
    require(made == count, f"phase {phase}: iterations() ended by itself after {made}")
    if isinstance(search, Concludes):
        with doing(f"phase {phase}: conclude(context)"):
            searched.conclusion = await search.conclude(context)
        if searched.conclusion is not None:
            _check_conclusion(searched, searched.conclusion, context, f"phase {phase}")
    return searched


def _check_conclusion(
    searched: _Searched, conclusion: Conclusion, context: SearchContext, phase: str
) -> None:
    at = f"{phase}, conclusion"
    require(isinstance(conclusion, Conclusion), f"{at}: a {type(conclusion).__name__}")
    require(
        conclusion.accepted.source in searched.scored(),
        f"{at}: accepts a harness that was not scored in this phase",
    )
    require(bool(conclusion.accepted_reason), f"{at}: does not say why it accepts")
    for each in conclusion.candidates:
        require(
            each.score is not None and each.score.weights_id == context.weights_id,
            f"{at}: a harness without a score under the present weights",
        )


def _check_report(
    report: SearchIteration, before: _Searched, context: SearchContext, asked: int, phase: str
) -> None:
    number = len(before.reports) + 1
    at = f"{phase}, iteration {number}"
    require(isinstance(report, SearchIteration), f"{at}: yielded a {type(report).__name__}")
    require(report.iteration == number, f"{at}: the report says iteration={report.iteration}")
    _check_candidates(report, context, at)
    accepted = report.accepted
    require(
        accepted.id == content_hash(accepted.source), f"{at}: accepted.id is not its source's hash"
    )
    for why, source in BAD.items():
        require(accepted.source != source, f"{at}: accepts a harness that {why}")
    fresh = _Searched([*before.reports, report]).scored()
    require(accepted.source in fresh, f"{at}: accepts a harness that was not scored in this phase")
    require(report.best in fresh.values(), f"{at}: best={report.best} is no score of this phase")
    require(bool(report.accepted_reason), f"{at}: does not say why it accepts")
    if number == 1:
        require(
            [each.harness.source for each in report.candidates] == [context.harness.source]
            and accepted.source == context.harness.source,
            f"{at}: must evaluate the incoming harness and nothing else",
        )
        require(not asked, f"{at}: asks the proposer; iteration 1 is the incoming one's evaluation")
    elif asked and phase == "phase 1" and number == 3:
        require(
            not report.candidates and accepted.source == before.accepted.source,
            f"{at}: the proposer broke down, but there are candidates or another harness",
        )
    elif asked:
        require(
            report.proposer_spent == sum([SPENT] * asked, Spent()),
            f"{at}: the proposer's cost is not in the report",
        )


def _check_candidates(report: SearchIteration, context: SearchContext, at: str) -> None:
    for each in report.candidates:
        require(
            (each.score is None) != (each.rejection is None),
            f"{at}: a candidate must have either a score or a rejection",
        )
        if each.rejection is not None:
            require(bool(each.rejection.reason), f"{at}: a rejection without a reason")
        if each.score is not None:
            require(
                each.score.weights_id == context.weights_id,
                f"{at}: a score under other weights is reported as this iteration's",
            )
        for why, source in BAD.items():
            require(
                each.harness.source != source or each.score is None,
                f"{at}: scores a harness that {why}; load_check, smoke, null_check come first",
            )


def _mark(search: HarnessSearch) -> Json:
    with doing("mark()"):
        mark = search.mark()
    try:
        same = json.loads(json.dumps(mark)) == mark
    except (TypeError, ValueError):
        same = False
    require(same, "mark() is not a JSON value")
    return mark


def _require_same(first: _Searched, again: _Searched, how: str) -> None:
    concluded = [
        each.conclusion and evolve(each.conclusion, seconds=0.0) for each in (first, again)
    ]
    require(concluded[0] == concluded[1], f"a search {how} concludes its phase otherwise")
    pairs: Sequence[Any] = list(zip(first.timeless(), again.timeless(), strict=True))
    for one, two in pairs:
        require(
            one == two,
            f"a search {how} makes another iteration {one.iteration}: does mark() name all of the "
            "state, and does restore() go back to it?",
        )

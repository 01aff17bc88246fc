from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from metaharness_fakes import (
    H0,
    FakeContext,
    FakeDomain,
    Questioning,
    ScriptedProposer,
    h,
    mutation,
    run,
    search,
)

from whale_core.errors import CapReached, InputError
from whale_core.keys import content_hash
from whale_core.plugins import Setup
from whale_core.records import Spent
from whale_core.roles import Candidate, Harness, Rejection, Workspace
from whale_metaharness.archive import Archive
from whale_metaharness.config import Config
from whale_metaharness.search import MetaHarness


def scored(mean: int, tag: str = "") -> Candidate:
    """A candidate that will score ``mean`` / 64."""
    return Candidate(h(f"MEAN = {mean}\nTAG = {tag!r}"), "h0000", "axis", "why", f"to {mean}")


def test_a_candidate_that_carries_an_example_is_refused(tmp_path: Path) -> None:
    """The search knows what the examples of D_harness say, and its gate looks for it."""
    smuggled = Candidate(h("HINT = 'Leonora Brask opened a ferry in 1871.'"), "h0000")
    context = FakeContext(tmp_path, domain=Questioning())
    _, second = run(search(ScriptedProposer([[smuggled]]), Questioning()), context, 2)
    rejection = second.candidates[0].rejection
    assert rejection is not None and rejection.gate == "leak"
    assert "leonora brask" in rejection.reason


def means(harness: Harness) -> tuple[float, float]:
    _, found, rest = harness.source.partition("MEAN = ")
    return (int(rest.split()[0]) / 64 if found else 3 / 64), 0.5


def test_a_phase(tmp_path: Path) -> None:
    proposer = ScriptedProposer(
        [[scored(1), scored(8), Candidate("class (", None)], [scored(2)], []]
    )
    context = FakeContext(tmp_path, means=means)
    first, second, third, fourth = run(search(proposer), context, 4)

    assert first.iteration == 1
    assert first.accepted == Harness(content_hash(H0), H0, "h0000")
    assert first.accepted_reason == "the incoming h0000 solved 4.7 % of 64"
    assert first.candidates[0].position_leak == {"last": 0.75}
    assert first.candidates[0].score is not None and first.best == 3 / 64

    assert context.pools == [["h0000"], ["h0001", "h0002"], ["h0004"]]  # one pool per iteration
    assert second.accepted.name == "h0002"
    assert second.accepted_reason == "h0002 solved 12.5 % of 64, before 4.7 %"
    assert second.best == 8 / 64
    assert second.proposer_spent == Spent(1, 8, 4, 2, 0.5)
    report = second.candidates[1]
    assert (report.parent, report.axis, report.hypothesis, report.changes) == (
        *("h0000", "axis", "why", "to 8"),
    )
    assert second.candidates[2].rejection == Rejection("parse", "line 1: invalid syntax")
    assert second.candidates[2].score is None

    assert third.accepted_reason == "kept h0002: nothing scored higher"
    assert fourth.accepted_reason == (
        "kept h0002: nothing scored higher; the proposer had no new candidate"
    )
    assert fourth.candidates == () and fourth.accepted.name == "h0002"


def test_the_workspace_shows_the_archive_and_the_state(tmp_path: Path) -> None:
    class Curious(ScriptedProposer):
        async def propose(self, workspace: Workspace):  # type: ignore[no-untyped-def]
            assert Archive.open(workspace.archive).entries == Archive.open(tmp_path).entries
            state = json.loads((workspace.outbox.parent / "state.json").read_text())
            assert state["accepted"] == "h0000" and state["weights_id"] == "w0"
            assert state["tie_breaks"] == ["format_rate"] and state["count"] == workspace.count == 2
            assert workspace.brief == (workspace.outbox.parent / "brief.md").read_text()
            return await super().propose(workspace)

    iterations = run(
        search(Curious([[scored(1)]]), candidates=2), FakeContext(tmp_path, means=means), 2
    )
    assert iterations[1].candidates[0].score is not None


def test_an_iteration_of_rejected_candidates_is_spent_and_recorded(tmp_path: Path) -> None:
    proposer = ScriptedProposer(
        [[Candidate("x = 1", "h0000"), Candidate(H0 + "# same", "h9999")], [scored(9)]]
    )
    context = FakeContext(tmp_path, means=means)
    _, spent, after = run(search(proposer), context, 3)
    assert [report.rejection and report.rejection.gate for report in spent.candidates] == [
        *("interface", "duplicate"),
    ]
    assert spent.candidates[1].parent == "h0000"  # h9999 does not exist: the nearest is taken
    assert spent.accepted_reason == (
        "kept h0000: nothing scored higher; all 2 candidates were rejected"
    )
    assert after.accepted.name == "h0003"
    assert context.pools == [["h0000"], ["h0003"]]
    assert Archive.open(tmp_path)["h0001"].rejection == spent.candidates[0].rejection


def test_equal_candidates_of_one_iteration(tmp_path: Path) -> None:
    proposer = ScriptedProposer([[scored(1), scored(1)]])
    _, second = run(search(proposer), FakeContext(tmp_path, means=means), 2)
    assert second.candidates[1].rejection == Rejection("duplicate", "the same program as h0001")


def test_more_candidates_than_asked_for_are_dropped(tmp_path: Path) -> None:
    proposer = ScriptedProposer([[scored(1), scored(2), scored(60)]])
    _, second = run(search(proposer, candidates=2), FakeContext(tmp_path, means=means), 2)
    assert len(second.candidates) == 2
    assert second.accepted_reason.endswith("; 1 more candidates than asked for were dropped")


def test_a_failing_proposer_costs_an_iteration(tmp_path: Path) -> None:
    proposer = ScriptedProposer([RuntimeError("no\nnetwork " + "x" * 1000), [scored(9)]])
    _, spent, after = run(search(proposer), FakeContext(tmp_path, means=means), 3)
    assert spent.accepted_reason.startswith(
        "kept h0000: nothing scored higher; the proposer failed: RuntimeError: no network xxx"
    )
    assert len(spent.accepted_reason) < 400 and spent.candidates == ()
    assert after.accepted.name == "h0001"


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), KeyboardInterrupt(), CapReached("cap")]
)
def test_a_stop_is_not_a_failure(error: BaseException, tmp_path: Path) -> None:
    async def until_stopped() -> None:
        context = FakeContext(tmp_path, means=means)
        with pytest.raises(type(error)):
            async for _ in search(ScriptedProposer([error])).iterations(context):
                pass

    asyncio.run(until_stopped())


def test_the_archive_lives_across_cycles_and_old_scores_do_not_count(tmp_path: Path) -> None:
    first = run(search(ScriptedProposer([[scored(60)]])), FakeContext(tmp_path, means=means), 2)
    best = first[1].accepted
    weaker = FakeContext(
        tmp_path,
        harness=best,
        weights_id="w1",
        cycle=1,
        phase=3,
        means=lambda harness: (0.0 if "MEAN = 60" in harness.source else 0.5, 0.5),
    )
    incoming, second = run(search(ScriptedProposer([[scored(1)]])), weaker, 2)
    assert incoming.accepted.name == "h0001" and incoming.best == 0.0
    assert second.accepted.name == "h0002"  # 50 % now; the 94 % of h0001 are history
    assert weaker.pools == [["h0001"], ["h0002"]]  # only the incoming one is scored again
    assert len(Archive.open(tmp_path)["h0001"].scores) == 2


def test_resume_restarts_an_interrupted_phase(tmp_path: Path) -> None:
    engine = search(mutation())
    assert engine.mark() == {"entries": 0, "scores": 0}
    run(engine, FakeContext(tmp_path), 3)
    mark = json.loads(json.dumps(engine.mark()))
    accepted = Archive.open(tmp_path)["h0000"].harness
    later = {"harness": accepted, "weights_id": "w1", "cycle": 1, "phase": 3}
    run(search(mutation()), FakeContext(tmp_path, **later), 3)  # interrupted here
    whole = {path: path.read_bytes() for path in sorted(tmp_path.glob("h*/*"))}

    resumed = search(mutation())
    resumed.restore(tmp_path, mark)
    assert resumed.mark() == mark
    run(resumed, FakeContext(tmp_path, **later), 3)
    assert {path: path.read_bytes() for path in sorted(tmp_path.glob("h*/*"))} == whole

    resumed.restore(tmp_path, None)
    assert resumed.mark() == {"entries": 0, "scores": 0} and not list(tmp_path.glob("h*"))


def test_a_harness_to_start_from_must_pass_the_gates(tmp_path: Path) -> None:
    context = FakeContext(tmp_path, broken={"null": "parse"})
    with pytest.raises(InputError, match="to start from is refused by the gate 'null': null model"):
        run(search(ScriptedProposer([])), context, 1)


def test_tie_breaks_can_be_named_and_are_checked(tmp_path: Path) -> None:
    def rates(harness: Harness) -> tuple[float, float]:
        return 0.0, (0.9 if "MEAN" in harness.source else 0.1)

    context = FakeContext(tmp_path / "a", means=rates)
    assert run(search(ScriptedProposer([[scored(1)]])), context, 2)[1].accepted.name == "h0001"
    context = FakeContext(tmp_path / "b", means=rates)
    plain = search(ScriptedProposer([[scored(1)]]), tie_breaks=())
    assert run(plain, context, 2)[1].accepted.name == "h0000"
    with pytest.raises(InputError, match="no metric 'formt'; it has retries, format_rate"):
        search(ScriptedProposer([]), tie_breaks=("formt",))


def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="space"):
        Config(space="prompts")
    with pytest.raises(ValueError, match="candidates"):
        Config(candidates=0)
    with pytest.raises(InputError, match="needs a domain and a proposer"):
        MetaHarness(Config(), Setup(seed=0, domain=FakeDomain()))  # type: ignore[arg-type]


def test_what_is_no_program_has_no_parent(tmp_path: Path) -> None:
    proposer = ScriptedProposer([[Candidate("class (", None), Candidate(h("A = 1"), "h9999")]])
    _, second = run(search(proposer), FakeContext(tmp_path), 2)
    assert [report.parent for report in second.candidates] == [None, "h0000"]

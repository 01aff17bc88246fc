"""What a proposer sees: real rollouts of the toy domain, made visible as files."""

from __future__ import annotations

import asyncio
import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import define, evolve

from whale_core.config.settings import SearchSettings
from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.records import Example
from whale_core.roles import Candidate, Proposal, SearchIteration, Workspace
from whale_core.run.contexts import SearchPhaseContext
from whale_core.run.harness_sample import harness_sample
from whale_core.testing.contracts.domain import with_members
from whale_core.testing.toy import ToyVerifier, VerifierConfig
from whale_core.testing.workbench import shuffling_engine, toy_domain, workbench
from whale_metaharness.config import Config
from whale_metaharness.outbox import read_outbox, write_candidate
from whale_metaharness.search import MetaHarness

DOMAIN = toy_domain()
BASE = DOMAIN.harnesses[DOMAIN.base_harness]
EDITED = {edit.name: with_members(BASE, edit) for edit in DOMAIN.catalogue}


@define
class Session:
    """A proposer that does ``work`` in its workspace, whatever that is."""

    work: Callable[[Workspace], Any]
    note: str = ""
    writes_code: bool = True

    async def propose(self, workspace: Workspace) -> Proposal:
        made = await self.work(workspace)
        return made if isinstance(made, Proposal) else Proposal(())


def search(
    archive: Path,
    work: Callable[[Workspace], Any],
    iterations: int = 2,
    shown: int | None = None,
    **settings: Any,
) -> tuple[list[SearchIteration], SearchPhaseContext]:
    """Run a phase of the real search with real episodes."""

    async def phase() -> tuple[list[SearchIteration], SearchPhaseContext]:
        engine = shuffling_engine()
        found: list[SearchIteration] = []
        with workbench(DOMAIN, ToyVerifier(VerifierConfig(), Setup(0)), engine) as bench:
            context = bench.search_context(archive, await engine.weights_id(), 1, examples=5)
            context = evolve(context, null_examples=DOMAIN.split("harness"))
            if shown is not None:
                wanted = SearchSettings(examples=5, shown=shown)
                context = evolve(context, sample=harness_sample(context.null_examples, wanted, 0))
            made = MetaHarness(Config(**settings), Setup(0, DOMAIN, Session(work)))
            steps = made.iterations(context)
            async for each in steps:
                found.append(each)
                if len(found) == iterations:
                    break
            await steps.aclose()
        return found, context

    return asyncio.run(phase())


def test_whole_trajectories_of_the_shown_examples_are_there(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    async def look(workspace: Workspace) -> None:
        seen["lines"] = [
            json.loads(line)
            for line in (workspace.root / "traces/h0000.jsonl").read_text().splitlines()
        ]
        seen["table"] = list(csv.reader((workspace.root / "outcomes.csv").read_text().splitlines()))
        seen["digest"] = (workspace.root / "digest.md").read_text()
        seen["files"] = sorted(path.name for path in workspace.root.iterdir())
        seen["instructions"] = workspace.instructions

    _, context = search(tmp_path, look)
    shown = context.examples[:3]  # half of five, rounded up
    assert context.shown == shown
    assert [line["example"] for line in seen["lines"]] == [example.id for example in shown]
    line, stored = seen["lines"][0], context.traces(context.harness)[0]
    assert line["task"] == {"letters": shown[0].content["letters"]}
    assert "reference" not in line and "record" not in line
    assert line["outcome"] == stored.outcome and line["reward"] == stored.reward
    turn = line["turns"][0]
    assert [message["role"] for message in turn["sent"]] == ["system", "user"]
    assert turn["wrote"] == stored.calls[0].text
    assert turn["environment"][0]["call"] == "say"
    assert turn["environment"][0]["result"] == stored.events[0].result
    head, *rows = seen["table"]
    assert head == ["example", "shown", "h0000"]
    assert [row[:2] for row in rows] == [
        [example.id, "yes" if index < 3 else "no"] for index, example in enumerate(context.examples)
    ]
    assert [float(row[2]) for row in rows[:3]] == [line["reward"] for line in seen["lines"]]
    failed = sum(line["outcome"] != "pass" for line in seen["lines"])
    assert f"## h0000 (accepted): {3 - failed} of 3 rollouts passed" in seen["digest"]
    assert seen["files"] == [
        *("archive", "brief.md", "digest.md", "history.jsonl", "instructions.md", "outbox"),
        *("outcomes.csv", "reports", "state.json", "traces"),
    ]
    assert DOMAIN.brief in seen["instructions"] and "(version 2)" in seen["instructions"]


def test_references_are_shown_only_if_asked_for(tmp_path: Path) -> None:
    lines: list[Any] = []

    async def look(workspace: Workspace) -> None:
        text = (workspace.root / "traces/h0000.jsonl").read_text()
        lines.extend(json.loads(line) for line in text.splitlines())

    _, context = search(tmp_path, look, reveal_references=True)
    assert [line["reference"] for line in lines] == [dict(e.content) for e in context.shown]


def test_validation_says_what_the_gates_will_say(tmp_path: Path) -> None:
    good = EDITED["terse"]
    crashing = BASE.replace("        letter = ", "        letter = 1 / 0  # ")
    cheating = BASE.replace(
        'character in task["letters"])', 'character in task["letters"] and character in "aeiou")'
    )
    said: list[Any] = []

    async def try_all(workspace: Workspace) -> Proposal:
        for source in (good, "class (", BASE, crashing, cheating, good):
            said.append(await workspace.validate(source))
        for slot, source in enumerate((good, crashing, cheating)):
            (workspace.outbox / f"s{slot}").mkdir()
            (workspace.outbox / f"s{slot}/harness.py").write_text(source)
        return Proposal(read_outbox(workspace))

    (_, second), context = search(tmp_path, try_all)
    gates = [None if refused is None else refused.gate for refused in said]
    assert gates == [None, "parse", "duplicate", "smoke", "null", None]
    assert [report.rejection for report in second.candidates] == [None, said[3], said[4]]
    # What was tried in the session is charged, beside what the gates try again.
    assert context.rollouts.ledger.rollouts == 5 + 4 + 4 * 3 + 4 * 3 + 5


def test_a_session_validates_so_many_candidates_and_no_more(tmp_path: Path) -> None:
    said: list[str] = []

    async def try_many(workspace: Workspace) -> None:
        for number in range(8):
            await workspace.validate(f"x = {number}")
        await workspace.validate("x = 3")  # known: costs nothing
        with pytest.raises(InputError) as error:
            await workspace.validate("x = 8")
        said.append(str(error.value))

    search(tmp_path, try_many, candidates=1)
    assert said == ["validate: this session has validated 8 candidates, no more"]


def test_a_session_begun_again_has_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its proposer may remember what was answered before a kill, and does not ask again."""

    class Killed(BaseException):
        pass

    async def begun(workspace: Workspace) -> None:
        for number in range(5):
            await workspace.validate(f"x = {number}")
        await workspace.rehearse(BASE, first_shown(workspace))
        raise Killed

    async def again(workspace: Workspace) -> None:
        for number in range(4, 8):
            await workspace.validate(f"x = {number}")
        with pytest.raises(InputError, match="has validated 8 candidates, no more"):
            await workspace.validate("x = 8")
        example = first_shown(workspace)
        await workspace.rehearse(BASE, example)
        await workspace.rehearse(EDITED["terse"], example)
        with pytest.raises(InputError, match="rehearse: this session has rehearsed 2 times"):
            await workspace.rehearse(EDITED["last-character"], example)

    monkeypatch.setattr("whale_metaharness.search.REHEARSALS", 2)
    with pytest.raises(Killed):
        search(tmp_path / "a", begun, candidates=1)
    shutil.move(tmp_path / "a/proposals", tmp_path / "b/proposals")  # what the archive had is gone
    _, second = search(tmp_path / "b", again, candidates=1)[0]
    assert "failed" not in second.accepted_reason


def hidden_examples(shown: int) -> tuple[Example, ...]:
    """Return the scored examples that are not shown."""
    wanted = SearchSettings(examples=5, shown=shown)
    return harness_sample(DOMAIN.split("harness"), wanted, 0).examples[shown:]


def first_shown(workspace: Workspace) -> str:
    line = (workspace.root / "traces/h0000.jsonl").read_text().splitlines()[0]
    return str(json.loads(line)["example"])


@pytest.mark.parametrize("shown", [0, 1])
def test_a_crash_says_nothing_of_examples_that_are_not_shown(shown: int, tmp_path: Path) -> None:
    """A harness can put an example's text into its exception, and into the exception's name."""
    hidden = [str(example.content["letters"]) for example in hidden_examples(shown)]
    line = "        letter = self.parse"
    assert BASE.count(line) == 1 and len(hidden) == 5 - shown

    def crashing(what: str) -> str:
        return BASE.replace(line, f"        {what}\n{line}")

    # The smoke test runs on four examples: the first harness crashes on the fifth alone.
    late = crashing(
        f'if task["letters"] == {hidden[-1]!r}: raise ValueError(task["letters"] + " secret")'
    )
    always = crashing('raise type("Secret_" + task["letters"], (Exception,), {})("secret")')
    read: list[str] = []
    gates: list[str] = []

    async def look(workspace: Workspace) -> Proposal:
        read.extend(
            path.read_text()
            for pattern in ("archive/*/metadata.json", "history.jsonl", "digest.md")
            for path in sorted(workspace.root.glob(pattern))
        )
        if workspace.iteration == 2:
            refused = await workspace.validate(always)
            assert refused is not None
            gates.append(refused.gate)
            read.append(refused.reason)
            for slot, source in enumerate((late, always), 1):
                write_candidate(workspace, slot, Candidate(source, None))
        return Proposal(read_outbox(workspace))

    search(tmp_path, look, iterations=3, shown=shown)
    text = "\n".join(read)
    assert gates == ["smoke"] and '"error: ValueError": 1' in text
    assert not [letters for letters in hidden if letters in text]
    if not shown:
        assert "secret" not in text.lower() and "error: others" in text


def test_a_rehearsal_shows_what_a_candidate_does_with_recorded_replies(tmp_path: Path) -> None:
    said: list[str] = []

    async def rehearse(workspace: Workspace) -> None:
        line = json.loads((workspace.root / "traces/h0000.jsonl").read_text().splitlines()[0])
        example = line["example"]
        said.append(line["turns"][0]["wrote"])
        for source in (BASE, EDITED["last-character"], EDITED["terse"]):
            said.append(await workspace.rehearse(source, example))
        for source, name in (("class (", example), ("x = 1", example), (BASE, "harness-0004")):
            with pytest.raises(InputError) as error:
                await workspace.rehearse(source, name)
            said.append(str(error.value))

    search(tmp_path, rehearse)
    wrote, same, parser, prompt, *errors = said
    assert "it asked just what was recorded, at every turn" in same
    assert f"the model wrote (length): {wrote}" in same
    assert f'environment say({{"letter": "{wrote[-1]}"}})' in parser
    assert "[system] Vowel." in prompt and wrote in prompt
    assert "turn 1" in prompt.split("from here on it asks something else", 1)[1]
    assert errors[0] == "rehearse: parse: line 1: invalid syntax"
    assert errors[1].startswith("rehearse: it cannot be loaded: ")
    assert errors[2].startswith(
        "rehearse: 'harness-0004' is no shown example of the accepted h0000"
    )

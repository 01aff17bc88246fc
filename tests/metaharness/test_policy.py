"""``policy``: what a reply becomes, what the model is told, what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from metaharness_fakes import H0, FakeContext, FakeDomain, run, search
from workspace_kit import make_archive, opened

from whale_core.errors import EngineError
from whale_core.plugins import Setup
from whale_core.records import Spent
from whale_core.roles import Proposal
from whale_core.run.archive import ArchiveEntry
from whale_core.testing.engine import FaultyEngine, ScriptedEngine, dies, spoils
from whale_metaharness.members import members
from whale_metaharness.outbox import read_outbox
from whale_metaharness.proposers.policy import PolicyProposer, candidate_of
from whale_metaharness.proposers.settings import PolicyConfig

PARENT = ArchiveEntry("h0000", H0, 0, 0, 1)
PARSE = "def parse(self, text):\n    return text[::-1]\n"


def proposer(engine: Any, seed: int = 0, **settings: Any) -> PolicyProposer:
    setup = Setup(seed=seed, domain=FakeDomain(), engine=engine)  # type: ignore[arg-type]
    return PolicyProposer(PolicyConfig(**settings), setup)


def propose(folder: Path, engine: Any, count: int = 3, seed: int = 0, **settings: Any) -> Proposal:
    make_archive(folder) if not folder.exists() else None
    with opened(folder, count=count) as workspace:
        made = asyncio.run(proposer(engine, seed, **settings).propose(workspace))
        assert made.candidates == read_outbox(workspace)
    return made


def source_of(reply: str) -> str | None:
    candidate = candidate_of(reply, PARENT, "parse")
    return None if candidate is None else candidate.source


@pytest.mark.parametrize(
    "reply",
    [
        f"Backwards is better.\n```python\n{PARSE}```\nDone.",
        f"```python\nx\n```\nNo, better:\n```python\n{PARSE}```",
        f"```\n{PARSE}",  # cut off at the token limit, just behind it
        "```python\n    "
        + PARSE.replace("\n    ", "\n        ")
        + "```",  # as it stood in the class
        PARSE,
    ],
)
def test_a_member_is_put_in_the_place_of_the_old_one(reply: str) -> None:
    source = source_of(reply)
    assert source is not None
    compile(source, "h", "exec")
    assert members(source)["parse"].text.strip().endswith(PARSE.strip())
    old, new = members(H0), members(source)
    assert {n for n in new if new[n].text != old[n].text} == {"parse"}


def test_several_members_and_whole_files_are_taken() -> None:
    both = source_of(f"```python\n{PARSE}\nRETRIES = 4\n@staticmethod\ndef new():\n    pass\n```")
    assert both is not None
    assert {"RETRIES = 4\n", "@staticmethod\ndef new():\n    pass\n"} <= {
        member.text for member in members(both).values()
    }
    whole = H0.replace("You answer.", "You think.")
    assert source_of(f"```python\n{whole}```") == whole


def test_what_cannot_be_read_is_left_to_the_gates() -> None:
    assert source_of("```python\ndef parse(self:\n```") == "def parse(self:\n"
    assert source_of("I am a language model.") == "I am a language model.\n"
    assert source_of(" \n```python\n\n```") is None


def test_candidates_say_where_they_come_from() -> None:
    candidate = candidate_of(f"Backwards\nis better.\n```python\n{PARSE}```", PARENT, "parse")
    assert candidate is not None
    assert (candidate.parent, candidate.axis) == ("h0000", "parse")
    assert candidate.hypothesis == "Backwards is better."
    assert candidate.changes == "h0000 with parse as the model under training wrote it"


def replies(*texts: str) -> Callable[[str, np.random.Generator], str]:
    return lambda prompt, rng: str(rng.choice(list(texts)))


def test_draws_are_functions_of_seed_phase_iteration_and_slot(tmp_path: Path) -> None:
    seen: list[str] = []

    def script(prompt: str, rng: np.random.Generator) -> str:
        seen.append(prompt)
        return f"x = {rng.random()}\n"

    first = propose(tmp_path / "h", ScriptedEngine(script))
    assert propose(tmp_path / "h", ScriptedEngine(script)) == first
    assert propose(tmp_path / "h", ScriptedEngine(script), count=1).candidates == (
        first.candidates[0],
    )
    assert propose(tmp_path / "h", ScriptedEngine(script), seed=1) != first
    assert len({each.source for each in first.candidates}) == 3
    assert "Change one mechanism." in seen[0] and H0 in seen[0]
    assert any(f"called {name}:" in seen[0] for name in members(H0))


def test_the_prompt_fits_the_context(tmp_path: Path) -> None:
    seen: list[str] = []

    class Small(ScriptedEngine):
        max_context = 1200

    def script(prompt: str, rng: np.random.Generator) -> str:
        seen.append(prompt)
        return PARSE

    made = propose(tmp_path / "h", Small(script), max_tokens=200)
    assert made.failure == "" and len(made.candidates) == 1  # three times the same
    assert all(len(prompt) <= 1000 for prompt in seen) and all(len(p) > 700 for p in seen)
    assert all("Change one mechanism." in prompt and H0 not in prompt for prompt in seen)
    Small.max_context = 300
    made = propose(tmp_path / "h", Small(script), max_tokens=200)
    assert made.candidates == () and made.failure == "context" and made.spent == Spent()


def test_every_generation_is_counted(tmp_path: Path) -> None:
    engine = ScriptedEngine(replies("a", ""))
    made = propose(tmp_path / "h", engine, count=3)
    assert engine.requests == made.spent.calls == 3
    assert made.spent.prompt_tokens > 1000 and 3 <= made.spent.sampled_tokens <= 6


def test_broken_generations_cost_what_they_cost(tmp_path: Path) -> None:
    broken = FaultyEngine(replies(PARSE), {0: spoils(0, finish_reason="tired")})
    made = propose(tmp_path / "h", broken)
    assert len(made.candidates) == 1 and made.spent.calls == 3
    lost = propose(tmp_path / "h", FaultyEngine(replies(PARSE), {0: dies(EngineError("gone"))}))
    assert lost.candidates == () and "gone" in lost.failure
    assert propose(tmp_path / "h", ScriptedEngine(replies(""))).failure == (
        "the model wrote nothing new"
    )


def test_the_search_survives_whatever_a_model_writes(tmp_path: Path) -> None:
    engine = ScriptedEngine(replies("", "no code", "class Harness", f"{PARSE}", H0, "x = (" * 400))
    iterations = run(search(proposer(engine)), FakeContext(tmp_path), 6)
    reports = [report for each in iterations[1:] for report in each.candidates]
    assert {report.rejection.gate for report in reports if report.rejection} <= {
        *("size", "parse", "interface", "duplicate"),
    }
    assert any(report.score for report in reports)
    assert all(each.proposer_spent.calls == 3 for each in iterations[1:])


def test_without_an_engine_it_fails_in_one_line(tmp_path: Path) -> None:
    second = run(search(proposer(None)), FakeContext(tmp_path), 2)[1]
    assert "the proposer failed: InputError: proposer policy needs the run's engine" in (
        second.accepted_reason
    )


def test_the_search_space_decides_what_is_asked_for(tmp_path: Path) -> None:
    seen: list[str] = []

    def script(prompt: str, rng: np.random.Generator) -> str:
        seen.append(prompt)
        return f'USER_PROMPT = "{rng.random()}"\n'

    make_archive(tmp_path)
    with opened(tmp_path, count=8, space="prompt-only") as workspace:
        made = asyncio.run(proposer(ScriptedEngine(script)).propose(workspace))
    assert len(made.candidates) == 8
    asked = {name for name in members(H0) for prompt in seen if f"called {name}:" in prompt}
    assert asked == {"SYSTEM_PROMPT", "USER_PROMPT"}

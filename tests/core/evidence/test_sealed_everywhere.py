"""No command opens the test split; a run's final pass does, once, and runs are counted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worlds_kit import BOTH, LetterDomain, LetterEngine, run_world, settings

import whale_core
from whale_core.api import evaluate, rollouts
from whale_core.cli.main import main
from whale_core.errors import InputError
from whale_core.plugins.manager import load_plugins
from whale_core.run import session
from whale_core.testing.toy import ToyVerifier

SOURCES = Path(whale_core.__file__).parent
# Where the unsealed domain's splits are read: to compare or count them, and in the final pass.
READS_SPLITS = {"run/parts.py", "run/outline.py", "run/manifest.py", "run/finale.py"}


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where test examples were played or judged: ``final pass``, or something else."""
    seen: list[str] = []
    here = ["elsewhere"]
    finish, environment, verify = session.finish, LetterDomain.environment, ToyVerifier.verify

    async def finishing(run: Any, identity: Any) -> Any:
        here.append("final pass")
        try:
            return await finish(run, identity)
        finally:
            here.pop()

    def watched_environment(domain: LetterDomain, example: Any) -> Any:
        if example.id.startswith("test-"):
            decided = json.dumps([e for e in run_entries() if e.get("event") == "decision"])
            seen.append(here[-1] if decided != "[]" else "undecided")
        return environment(domain, example)

    async def watched_verify(verifier: ToyVerifier, example: Any, trajectory: Any) -> Any:
        if example.id.startswith("test-"):
            seen.append(here[-1])
        return await verify(verifier, example, trajectory)

    def run_entries() -> list[dict[str, Any]]:
        newest = max(Path().glob("*/journal.jsonl"), key=lambda path: path.stat().st_mtime)
        return [json.loads(line) for line in newest.read_text().splitlines()]

    monkeypatch.setattr(session, "finish", finishing)
    monkeypatch.setattr(LetterDomain, "environment", watched_environment)
    monkeypatch.setattr(ToyVerifier, "verify", watched_verify)
    return seen


def openings() -> list[int]:
    """Return how many runs each test split was opened by on this machine."""
    path = Path("state/whale/test-openings.json")
    return [len(runs) for runs in json.loads(path.read_text()).values()] if path.is_file() else []


@pytest.mark.slow
def test_only_the_final_pass_opens_it(
    engines: list[LetterEngine], opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"scheduler": {"name": "fixed", "epochs": 0.25, "iterations": 2, "total_epochs": 0.5}}
    run_world(Path("run"), **small)
    assert opened and set(opened) == {"final pass"}
    assert openings() == [1]

    opened.clear()
    few = ["--examples", "2"]
    assert main(["diagnose", "run", "--rollouts", "1", *few, "--draws", "1"]) == 0
    assert main(["matrix", "run", *few]) == 0
    assert main(["verifier", "run"]) == 0
    assert main(["status", "run"]) == 0
    assert main(["harness", "list", "run"]) == 0
    base = settings(BOTH, **small)
    evaluate(base, examples=2, draws=1, progress=False)
    commands: list[Callable[[], Any]] = [
        lambda: evaluate(base, split="test", progress=False),
        lambda: rollouts(base, split="test", progress=False),
    ]
    for command in commands:
        with pytest.raises(InputError, match="sealed"):
            command()
    assert main(["harness", "try", "h0", "--run", "run", "--split", "test"]) == 2
    assert opened == [] and openings() == [1]

    run_world(Path("again"), **small)  # another run opens the same split
    assert openings() == [2]
    assert json.loads(Path("again/result.json").read_text())["test_openings"] == 2


def test_nothing_else_in_the_package_takes_examples_from_the_unsealed_domain() -> None:
    """A new module that does must be looked at, and is named above then."""
    taking = re.compile(
        r"unsealed\.(split|environment|chance_levels)\(|= base\.unsealed\b"
        r"|chosen_examples\(\s*\w+\.unsealed"
    )
    found = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if taking.search(path.read_text())
    }
    assert found == READS_SPLITS


def test_a_rollout_of_a_sealed_example_cannot_be_asked_for(engines: list[LetterEngine]) -> None:
    """Plugins get the domain behind the seal."""
    from whale_core.config import resolve
    from whale_core.run.parts import build_parts

    plugins = load_plugins()
    parts = build_parts(resolve(plugins, settings(BOTH), [], {}), plugins)
    with pytest.raises(InputError, match="sealed"):
        parts.domain.split("test")

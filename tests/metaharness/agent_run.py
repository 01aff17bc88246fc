"""Real runs of the toy domain with a proposer behind a server, as a program that can be killed.

``agent_run.py KIND URL FOLDER LINES`` starts or continues the run in FOLDER, and kills itself (as
``kill -9`` does) once its sessions have written LINES lines of transcripts; 0: never. It needs the
tests' folder in PYTHONPATH.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from agent_kit import KEY_NAME, about
from proposer_server_kit import MODEL, PRICES, Ask, Fault, Said

from whale_core.api import RunResult, register, resume, run
from whale_core.testing.engine import ScriptedEngine
from whale_metaharness.proposers import agent
from whale_metaharness.proposers.transcript import Transcript

CHEAT = "character in 'aeiou' and character in task['letters']"
FAIR = "character in task['letters']"


def guess(prompt: str, rng: np.random.Generator) -> str:
    return str(rng.choice(list("aeioubcdfg")))


def settings(kind: str, url: str, **proposer: Any) -> Mapping[str, Any]:
    """Return a search over three iterations with a proposer of this kind."""
    register("engine", "guessing", lambda settings, setup: ScriptedEngine(guess))
    prices = dict(PRICES) if kind == "anthropic" else {k: PRICES[k] for k in list(PRICES)[:3]}
    return {
        "domain": {"name": "toy", "weight": 32, "harness": 8, "selection": 8, "test": 8},
        "verifier": "toy",
        "engine": "guessing",
        "selection": {"examples": 8, "draws": 1},
        "proposer": {
            "name": kind,
            "base_url": url if kind == "anthropic" else f"{url}/v1",
            "model": MODEL,
            "api_key_env": KEY_NAME,
            "prices": prices,
            **proposer,
        },
        "harness_search": {"name": "meta-harness", "candidates": 2},
        "scheduler": {"name": "harness-only", "iterations": 3},
        "search.examples": 8,
        "test": {"examples": 8, "draws": 1},
    }


def researcher(ask: Ask) -> Said | Fault:
    """A model that reads, writes a candidate and one that solves the task itself, tries them, is
    told what a gate makes of the second, and mends it."""
    if not ask.iteration:
        return Said("ok")
    parent = "archive/h0000/harness.py"
    one, two = "outbox/one/harness.py", "outbox/two/harness.py"
    match ask.turn:
        case 0:
            files = ("state.json", "digest.md", "traces/h0000.jsonl")
            return Said("I read.", [("read_file", {"path": name}) for name in files])
        case 1:
            found = re.search(r'"example": "([^"]+)"', ask.told)
            assert found is not None, ask.told[:2000]
            prompt = {"old": "Say one letter.", "new": f"Say a vowel, please ({ask.iteration})."}
            cheat = {"old": 'character in task["letters"]', "new": CHEAT}
            return Said(
                "",
                [
                    ("copy_file", {"source": parent, "path": one}),
                    ("edit_file", {"path": one, **prompt}),
                    about("one"),
                    ("try", {"candidate": "one", "example": found[1]}),
                    ("copy_file", {"source": parent, "path": two}),
                    ("edit_file", {"path": two, "old": "= 8", "new": f"= {ask.iteration + 3}"}),
                    ("edit_file", {"path": two, **cheat}),
                    about("two", axis="B"),
                    ("validate", {"candidate": "two"}),
                    ("write_file", {"path": "outbox/report.md", "content": "Two ideas.\n"}),
                ],
            )
        case 2:
            return Said("", [("finish", {})])
        case 3:
            return Said("", [("edit_file", {"path": two, "old": CHEAT, "new": FAIR})])
    return Said("", [("finish", {})])


def main(kind: str, url: str, folder: str, lines: int) -> RunResult:
    """Do what the module says."""
    agent.FIRST_WAIT = 0.02
    left = lines
    add = Transcript.add

    def counted(self: Transcript, name: str, **data: Any) -> None:
        nonlocal left
        add(self, name, **data)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    Transcript.add = counted  # type: ignore[method-assign]
    chosen = settings(kind, url)  # registers the engine, in a continued run too
    if (Path(folder) / "journal.jsonl").is_file():
        return resume(folder, progress=False)
    return run(chosen, run_dir=folder, progress=False)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))

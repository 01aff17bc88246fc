"""A workspace without a search behind it, proposers of both protocols, and what a model may do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import define, field
from proposer_server_kit import MODEL, PRICES, Ask, Fault, Said, Script
from run_kit import lines_of

from whale_core.chat_completions import Prices
from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.roles import Proposal, Rejection
from whale_metaharness.proposers.agent import AgentProposer
from whale_metaharness.proposers.anthropic import AnthropicProposer
from whale_metaharness.proposers.openai import OpenAIProposer
from whale_metaharness.proposers.settings import AnthropicConfig, CachePrices, OpenAIConfig
from whale_metaharness.proposers.transcript import transcript_path

KEY_NAME = "TOY_PROPOSER_KEY"
H0 = "class Harness(BaseHarness):\n    A = 1\n    B = 2\n"
WAYS = [("anthropic", True), ("anthropic", False), ("openai", True), ("openai", False)]


@define
class PlainWorkspace:
    """Folders and files as of a search; sources that say ``bad`` are refused."""

    root: Path
    count: int = 2
    iteration: int = 2
    brief: str = "Guess letters."
    instructions: str = "Propose harnesses.\n\nGuess letters."
    validated: list[str] = field(factory=list)
    rehearsed: list[tuple[str, str]] = field(factory=list)
    most: int = 100

    def __attrs_post_init__(self) -> None:
        (self.archive / "h0000").mkdir(parents=True)
        self.outbox.mkdir()
        (self.archive / "h0000" / "harness.py").write_text(H0)
        (self.root / "state.json").write_text(json.dumps({"accepted": "h0000"}))
        (self.root / "traces").mkdir()
        lines = [json.dumps({"turn": n, "text": f"failure {n} " + "x" * 30_000}) for n in range(3)]
        (self.root / "traces" / "e1.jsonl").write_text("\n".join(lines) + "\n")

    @property
    def archive(self) -> Path:
        return self.root / "archive"

    @property
    def outbox(self) -> Path:
        return self.root / "outbox"

    async def validate(self, source: str) -> Rejection | None:
        if len(self.validated) == self.most:
            raise InputError(f"this session has validated {self.most} candidates: no more")
        self.validated.append(source)
        return Rejection("parse", "it says bad") if "bad" in source else None

    async def rehearse(self, source: str, example: str) -> str:
        self.rehearsed.append((source, example))
        if example != "e1":
            raise InputError(f"no shown example {example}")
        return "it sent: Which letter? It got: a. It ended with: a"


def proposer_of(
    kind: str, url: str, stream: bool = True, model: str = MODEL, **settings: Any
) -> AgentProposer:
    usual: dict[str, Any] = {"model": model, "api_key_env": KEY_NAME, "stream": stream}
    if kind == "anthropic":
        config = AnthropicConfig(
            **usual, base_url=url, **{"prices": CachePrices(**PRICES)} | settings
        )
        return AnthropicProposer(config, Setup(seed=0))
    names = ("input", "output", "cached")
    prices = Prices(**{name: PRICES[name] for name in names})
    openai = OpenAIConfig(**usual, base_url=f"{url}/v1", **{"prices": prices} | settings)
    return OpenAIProposer(openai, Setup(seed=0))


def proposed(proposer: AgentProposer, workspace: Any) -> Proposal:
    return asyncio.run(proposer.propose(workspace))


def transcript_of(workspace: Any) -> list[dict[str, Any]]:
    return lines_of(transcript_path(workspace))


def file(slot: str, source: str) -> tuple[str, Mapping[str, str]]:
    return "write_file", {"path": f"outbox/{slot}/harness.py", "content": source}


def about(slot: str, **metadata: Any) -> tuple[str, Mapping[str, str]]:
    told = {"parent": "h0000", "axis": "A", "hypothesis": "It helps.", "changes": "A", **metadata}
    return "write_file", {"path": f"outbox/{slot}/metadata.json", "content": json.dumps(told)}


FINISH = Said(calls=[("finish", {})])


def good(ask: Ask) -> Said | Fault:
    """A model that looks around, writes two candidates, tries them and hands them in."""
    turns = [
        Said("I look around.", [("list_files", {}), ("read_file", {"path": "state.json"})]),
        Said(
            "",
            [
                (
                    "copy_file",
                    {"source": "archive/h0000/harness.py", "path": "outbox/a/harness.py"},
                ),
                ("edit_file", {"path": "outbox/a/harness.py", "old": "A = 1", "new": "A = 3"}),
                about("a"),
                file("b", H0.replace("B = 2", "B = 4")),
                about("b", axis="B"),
            ],
        ),
        Said("", [("validate", {"candidate": "a"}), ("try", {"candidate": "a", "example": "e1"})]),
        FINISH,
    ]
    return turns[min(ask.turn, 3)] if ask.iteration else Said("ok")


def faulty(faults: Mapping[int, Said | Fault], script: Script = good) -> Script:
    """``script`` with faults in place of the answers to some requests, by their number."""
    return lambda ask: faults.get(ask.number) or script(ask)

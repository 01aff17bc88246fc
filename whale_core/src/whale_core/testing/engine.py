"""A scripted engine: replies are a function of the prompt text and the request's random stream."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve

from whale_core.keys import content_hash, stream_generator
from whale_core.records import Generation, GenerationRequest, Json

START, END, OFFSET = 1, 2, 10

Script = Callable[[str, np.random.Generator], str]


class CharTokenizer:
    """One token per character (code point + 10), and the special tokens ``<s>`` and ``</s>``."""

    end_tokens = frozenset({END})
    supports_tools = False

    def template(
        self, messages: Sequence[Mapping[str, str]], tools: Sequence[Json] | None = None
    ) -> str:
        """Return ``<s>role`` newline content ``</s>`` turns and the start of the assistant's."""
        turns = "".join(f"<s>{turn['role']}\n{turn['content']}</s>\n" for turn in messages)
        return f"{turns}<s>assistant\n"

    def encode(self, text: str, *, special: bool) -> list[int]:
        """Tokenise ``text``; only with ``special`` do the special strings become their tokens."""
        ids: list[int] = []
        while text:
            if special and text.startswith("<s>"):
                ids, text = [*ids, START], text[3:]
            elif special and text.startswith("</s>"):
                ids, text = [*ids, END], text[4:]
            else:
                ids, text = [*ids, ord(text[0]) + OFFSET], text[1:]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids`` without the special tokens."""
        return "".join(chr(token - OFFSET) for token in ids if token > OFFSET)


class ScriptedEngine:
    """Implements ``RolloutEngine``: ``script(prompt text, rng)`` makes each reply."""

    max_context = 8192
    vocabulary = sys.maxunicode + 1 + OFFSET

    def __init__(self, script: Script) -> None:
        self.tokenizer = CharTokenizer()
        self.served = content_hash("scripted")
        self.requests = 0
        self._script = script

    def facts(self) -> Mapping[str, Json]:
        """Return the engine's name."""
        return {"engine": "scripted"}

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Return the scripted replies, cut at the token limit or after a stop string."""
        self.requests += len(requests)
        return [self._reply(request) for request in requests]

    async def weights_id(self) -> str:
        """Return the id of the scripted weights."""
        return self.served

    async def load(self, path: Path | None) -> str:
        """There is nothing to load."""
        return self.served

    async def save(self, path: Path) -> str:
        """Write an empty folder."""
        path.mkdir(parents=True, exist_ok=True)
        return self.served

    async def forget(self) -> None:
        """Nothing is cached."""

    async def close(self) -> None:
        """There is nothing to free."""

    def _reply(self, request: GenerationRequest) -> Generation:
        prompt = self.tokenizer.decode(request.prompt_ids.tolist())
        text = self._script(prompt, stream_generator(request.stream))
        ends = [text.find(stop) + len(stop) for stop in request.stop if stop in text]
        reason = "stop" if ends else "end"
        text = text[: min(ends)] if ends else text
        ids = self.tokenizer.encode(text, special=False) + ([] if ends else [END])
        if len(ids) > request.max_tokens:
            ids, reason = ids[: request.max_tokens], "length"
        return Generation(
            token_ids=np.array(ids, np.int32),
            logprobs=np.full(len(ids), -1.0, np.float32),
            text=self.tokenizer.decode(ids),
            finish_reason=reason,
            weights_id=self.served,
        )


Answers = list[Generation]
EngineFault = Callable[[Answers], Awaitable[Any]]


class FaultyEngine(ScriptedEngine):
    """A scripted engine with planned faults: ``plan[k]`` befalls the k-th ``generate`` (from 0)."""

    def __init__(self, script: Script, plan: Mapping[int, EngineFault]) -> None:
        super().__init__(script)
        self.batches: list[Sequence[GenerationRequest]] = []
        self._plan = plan

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Return what the fault planned for this call makes of the scripted replies."""
        fault = self._plan.get(len(self.batches))
        self.batches.append(requests)
        made = await super().generate(requests)
        if fault is None:
            return made
        spoiled: list[Generation] = await fault(made)
        return spoiled


def dies(error: BaseException) -> EngineFault:
    """Return the fault of raising ``error``."""

    async def fault(made: Answers) -> Answers:
        raise error

    return fault


def hangs() -> EngineFault:
    """Return the fault of never answering."""

    async def fault(made: Answers) -> Answers:
        await asyncio.Event().wait()
        return made

    return fault


def spoils(index: int, **changes: Any) -> EngineFault:
    """Return the fault of answering request ``index`` with a generation so changed."""

    async def fault(made: Answers) -> Answers:
        return [evolve(g, **changes) if i == index else g for i, g in enumerate(made)]

    return fault


def answers(instead: Callable[[Answers], Any]) -> EngineFault:
    """Return the fault of answering ``instead(generations)``."""

    async def fault(made: Answers) -> Any:
        return instead(made)

    return fault

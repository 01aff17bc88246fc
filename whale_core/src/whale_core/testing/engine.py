"""A scripted engine: replies are a function of the prompt text and the request's random stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from whale_core.errors import EngineError
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
    """Implements ``RolloutEngine``: ``script(prompt text, rng)`` makes each reply.

    ``faults`` is how many of the next ``generate`` calls raise ``EngineError``.
    """

    max_context = 8192

    def __init__(self, script: Script, faults: int = 0) -> None:
        self.tokenizer = CharTokenizer()
        self.served = content_hash("scripted")
        self.requests = 0
        self._script = script
        self._faults = faults

    def facts(self) -> Mapping[str, Json]:
        """Return the engine's name."""
        return {"engine": "scripted"}

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Return the scripted replies, cut at the token limit or after a stop string."""
        if self._faults:
            self._faults -= 1
            raise EngineError("scripted fault")
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

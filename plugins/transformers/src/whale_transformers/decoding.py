"""Continuous batching: from a list of requests to their generations, on the engine's thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from attrs import define, field
from torch.nn import functional

from whale_core.chat_tokenizer import TextTokenizer
from whale_core.errors import EngineError
from whale_core.keys import uniforms
from whale_core.records import Generation, GenerationRequest
from whale_core.stop_strings import StopFinder
from whale_transformers.attention import (
    BLOCK,
    DecodeAttention,
    PrefillAttention,
    PromptPlan,
    SuffixStore,
    narrow_rows,
)
from whale_transformers.forward import hidden_states, logits, product_height, serving
from whale_transformers.kv import CHUNK, Chunk, PromptCache
from whale_transformers.sampling import draw, vocabulary_chunks

PREFILL_TILES = 8  # chunks of prompts computed in one forward pass
SUFFIX_BYTES = 1 << 28  # memory for the keys and values of sampled tokens


@define(eq=False)
class Running:
    """One request while it runs."""

    request: GenerationRequest
    limit: int
    uniforms: npt.NDArray[np.float64]
    stops: StopFinder
    path: list[Chunk] = field(factory=list)
    tokens: list[int] = field(factory=list)
    logprobs: list[np.float32] = field(factory=list)
    finish: str | None = None
    computed: int = 0  # prompt tokens computed for this request first

    @property
    def broken(self) -> bool:
        """Whether its newest logits were not finite, so that it ended there."""
        return bool(self.logprobs) and not np.isfinite(self.logprobs[-1])

    @property
    def position(self) -> int:
        """Position in the context of the newest token."""
        return len(self.request.prompt_ids) + len(self.tokens) - 1


class Decoder:
    """Runs batches of requests through one model; owns the prompt cache and the suffix store."""

    def __init__(
        self, model: Any, tokenizer: TextTokenizer, cache: PromptCache, slots: int, max_context: int
    ) -> None:
        """Use ``slots`` decoding rows at most, and contexts of at most ``max_context`` tokens."""
        self._model = model
        self.height = product_height(model)
        self.narrow = narrow_rows(model.config.num_attention_heads, cache.keys[0])
        self._tokenizer = tokenizer
        self._cache = cache
        self._slots = slots
        self._max_context = max_context
        self._suffix: SuffixStore | None = None
        self._device = cache.keys[0].device

    def forget(self) -> None:
        """Drop all prompts' keys and values."""
        self._cache.clear()

    def release(self) -> None:
        """Give back the memory of prompts and sampled tokens; it is reserved anew when needed."""
        self._cache.clear()
        self._suffix = None

    def run(
        self,
        requests: Sequence[GenerationRequest],
        weights_id: str,
        given_up: Callable[[], bool] = lambda: False,
    ) -> list[Generation]:
        """Return one generation per request, in order.

        Raises:
            EngineError: a prompt does not fit, or ``given_up`` came true (nobody waits any more).
        """
        sequences = [self._sequence(request) for request in requests]
        waiting = deque(s for s in sequences if s.finish is None)
        active: list[Running] = []
        slots = self._reserve(sequences) if sequences else 0
        plan: PromptPlan | None = None
        try:
            with serving(self._model, self.height):
                while waiting or active:
                    if given_up():
                        raise EngineError("the batch was given up")
                    arrived = self._admit(waiting, slots - len(active))
                    if arrived:
                        self._prefill(arrived)
                        self._first_tokens(arrived)
                    if arrived or any(s.finish for s in active):
                        active = self._pack(active, arrived)
                        plan = None
                    if active:
                        if plan is None:
                            paths = [s.path for s in active]
                            plan = PromptPlan.make(paths, self.narrow, self._device)
                        self._step(active, plan)
        except BaseException:
            self.release()  # what it holds may be broken
            raise
        finally:
            for sequence in sequences:
                self._cache.release(sequence.path)
                sequence.path = []
        return [self._generation(sequence, weights_id) for sequence in sequences]

    def _sequence(self, request: GenerationRequest) -> Running:
        length = len(request.prompt_ids)
        if length == 0:
            raise EngineError("a request has an empty prompt")
        room = self._max_context - length
        if room < 1:
            raise EngineError(
                f"a prompt of {length} tokens does not fit the context of "
                f"{self._max_context} tokens (max_context)"
            )
        limit = max(0, min(request.max_tokens, room))
        return Running(
            request=request,
            limit=limit,
            uniforms=uniforms(request.stream, limit),
            stops=StopFinder(request.stop, self._tokenizer.decode),
            finish=None if limit else "length",
        )

    def _reserve(self, sequences: Sequence[Running]) -> int:
        """Return how many rows may decode at once, with room for their longest suffix."""
        blocks = max(-(-s.limit // BLOCK) for s in sequences)
        layer = self._cache.keys[0]
        layers = len(self._cache.keys)
        per_slot = 2 * layers * blocks * BLOCK * layer[0, :, 0].numel() * layer.element_size()
        slots = max(1, min(self._slots, len(sequences), SUFFIX_BYTES // max(per_slot, 1)))
        held = self._suffix
        if held is None or held.blocks < blocks or held.slots < slots:
            self._suffix = None
            self._suffix = SuffixStore.reserve(layers, max(blocks, 1), slots, layer)
        return slots

    def _admit(self, waiting: deque[Running], free: int) -> list[Running]:
        """Take as many waiting requests, in order, as there are slots and prompt blocks for."""
        admitted: list[Running] = []
        while waiting and len(admitted) < free:
            path = self._cache.acquire(waiting[0].request.prompt_ids)
            if path is None:
                break
            waiting[0].path = path
            admitted.append(waiting.popleft())
        return admitted

    def _prefill(self, arrived: Sequence[Running]) -> None:
        """Compute the prompt chunks that the cache did not have."""
        wanted: dict[int, Sequence[Chunk]] = {}
        for sequence in arrived:
            for index, chunk in enumerate(sequence.path):
                if chunk.hidden is None and chunk.block not in wanted:
                    wanted[chunk.block] = sequence.path[: index + 1]
                    sequence.computed += len(chunk.tokens)
        paths = list(wanted.values())
        for start in range(0, len(paths), PREFILL_TILES):
            self._prefill_tiles(paths[start : start + PREFILL_TILES])

    def _prefill_tiles(self, paths: Sequence[Sequence[Chunk]]) -> None:
        ids = np.zeros((len(paths), CHUNK), dtype=np.int64)
        positions = np.empty((len(paths), CHUNK), dtype=np.int64)
        for tile, path in enumerate(paths):
            chunk = path[-1]
            ids[tile, : len(chunk.tokens)] = chunk.tokens
            positions[tile] = chunk.index * CHUNK + np.arange(CHUNK)
        hidden = hidden_states(
            self._model,
            torch.from_numpy(ids.reshape(-1)).to(self._device),
            torch.from_numpy(positions.reshape(-1)).to(self._device),
            PrefillAttention(self._cache, paths),
        )
        for tile, path in enumerate(paths):
            path[-1].hidden = hidden[tile * CHUNK + len(path[-1].tokens) - 1].clone()

    def _first_tokens(self, arrived: Sequence[Running]) -> None:
        """Sample the first token of each from the hidden state at the end of its prompt."""
        ends = [sequence.path[-1].hidden for sequence in arrived]
        hidden = torch.stack([end for end in ends if end is not None])
        rows = _padded(len(arrived))
        self._sample(arrived, functional.pad(hidden, (0, 0, 0, rows - len(arrived))))

    def _pack(self, active: Sequence[Running], arrived: Sequence[Running]) -> list[Running]:
        """Return the unfinished sequences, rows 0 to n-1; fill holes from the end.

        What a broken sequence leaves in the store is wiped: masked places vanish for the next user
        of the row only if they are finite.
        """
        keep = [row for row, sequence in enumerate(active) if sequence.finish is None]
        holes = [row for row in range(len(keep)) if active[row].finish is not None]
        movers = [row for row in keep if row >= len(keep)]
        broken = [row for row, sequence in enumerate(active) if sequence.broken]
        if broken:
            assert self._suffix is not None
            self._suffix.wipe(broken)
        if holes:
            assert self._suffix is not None
            self._suffix.move(movers, holes)
        packed = list(active[: len(keep)])
        for source, target in zip(movers, holes, strict=True):
            packed[target] = active[source]
        for sequence in [*active, *arrived]:
            if sequence.finish is not None:
                self._cache.release(sequence.path)
                sequence.path = []
        return packed + [sequence for sequence in arrived if sequence.finish is None]

    def _step(self, active: Sequence[Running], plan: PromptPlan) -> None:
        """Decode one token of every active sequence."""
        assert self._suffix is not None
        rows = _padded(len(active))
        ids = torch.zeros(rows, dtype=torch.long)
        positions = torch.zeros(rows, dtype=torch.long)
        ids[: len(active)] = torch.tensor([s.tokens[-1] for s in active])
        positions[: len(active)] = torch.tensor([s.position for s in active])
        stored = [len(s.tokens) - 1 for s in active]
        attention = DecodeAttention(self._cache, plan, self._suffix, stored)
        self._sample(
            active,
            hidden_states(self._model, ids.to(self._device), positions.to(self._device), attention),
        )

    def _sample(self, sequences: Sequence[Running], hidden: torch.Tensor) -> None:
        """Draw the next token of each sequence from its row of ``hidden`` and take note of it."""
        vocabulary = len(self._model.get_output_embeddings().weight)
        tokens, logprobs = draw(
            vocabulary_chunks(
                lambda start, end: logits(self._model, hidden, start, end, self.height), vocabulary
            ),
            [s.request.sampling for s in sequences],
            np.array([s.uniforms[len(s.tokens)] for s in sequences]),
        )
        for sequence, token, logprob in zip(sequences, tokens, logprobs, strict=True):
            sequence.tokens.append(int(token))
            sequence.logprobs.append(logprob)
            if sequence.broken:
                sequence.finish = "length"
            elif sequence.tokens[-1] in self._tokenizer.end_tokens:
                sequence.finish = "end"
            elif sequence.stops.push(int(token)):
                sequence.finish = "stop"
            elif len(sequence.tokens) == sequence.limit:
                sequence.finish = "length"

    def _generation(self, sequence: Running, weights_id: str) -> Generation:
        assert sequence.finish is not None
        spoken = sequence.tokens[:-1] if sequence.finish == "end" else sequence.tokens
        return Generation(
            token_ids=np.array(sequence.tokens, dtype=np.int32),
            logprobs=np.array(sequence.logprobs, dtype=np.float32),
            text=self._tokenizer.decode(spoken),
            finish_reason=sequence.finish,
            weights_id=weights_id,
            cached_tokens=(
                len(sequence.request.prompt_ids) - sequence.computed if sequence.tokens else 0
            ),
        )


def _padded(rows: int) -> int:
    """Return ``rows`` rounded up to whole tiles."""
    return -(-rows // CHUNK) * CHUNK

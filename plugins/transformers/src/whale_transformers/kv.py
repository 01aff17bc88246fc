"""The prompt cache: attention keys and values in blocks, found again by a trie of token chunks.

A prompt is cut into chunks of ``CHUNK`` tokens at absolute positions, so two prompts with a common
prefix share its chunks, and the G samples of one prompt share all of them. A chunk's keys and
values depend on the chunks before it alone: taking them from here or computing them again gives
the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import define, field

from whale_core.records import Ids

CHUNK = 64  # tokens per block, and the rows of every matrix product


@define(eq=False)
class Chunk:
    """One chunk of a prompt: ``tokens`` after those of ``parent``, stored in block ``block``.

    ``hidden`` is the final hidden state of its last token ``[hidden]``, None until computed.
    ``users`` counts running prompts that hold it, ``children`` the cached continuations.
    """

    tokens: Ids
    parent: Chunk | None
    block: int
    index: int  # 0 for the first chunk of a prompt
    users: int = 0
    children: int = 0
    used: int = 0  # the cache's clock at last use
    hidden: torch.Tensor | None = None
    key: tuple[int, bytes] = field(default=(0, b""))


class PromptCache:
    """Block pool and trie. Blocks nobody uses are kept until their space is needed, oldest first.

    ``keys[layer]`` and ``values[layer]`` have the shape ``[blocks, kv_heads, CHUNK, head_dim]``.
    """

    def __init__(
        self,
        blocks: int,
        layers: int,
        kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Reserve ``blocks`` blocks (the memory is touched only as they are filled)."""
        self._shape = (2, layers, blocks, kv_heads, CHUNK, head_dim)
        self._like = torch.empty(0, dtype=dtype, device=device)
        self._blocks = blocks
        self.clear()

    def clear(self) -> None:
        """Forget everything: the weights changed. The memory goes back to the system.

        One large piece, because an allocator keeps small ones.
        """
        self.keys: Sequence[torch.Tensor] = ()
        self.values: Sequence[torch.Tensor] = ()
        keys, values = self._like.new_empty(self._shape)
        self.keys, self.values = keys.unbind(), values.unbind()
        self._chunks: dict[tuple[int, bytes], Chunk] = {}
        self._free = list(range(self._blocks - 1, -1, -1))
        self._clock = 0

    def acquire(self, prompt: Ids) -> list[Chunk] | None:
        """Return the chunks of ``prompt``, each marked as used once more; None if space is short.

        Chunks whose ``hidden`` is None are new: the caller must fill their blocks, in order.
        """
        self._clock += 1
        held: list[Chunk] = []
        parent: Chunk | None = None
        for index, start in enumerate(range(0, len(prompt), CHUNK)):
            tokens = prompt[start : start + CHUNK]
            key = (id(parent) if parent is not None else 0, tokens.tobytes())
            chunk = self._chunks.get(key)
            if chunk is None:
                block = self._take_block()
                if block is None:
                    self.release(held)
                    return None
                chunk = Chunk(tokens=tokens, parent=parent, block=block, index=index, key=key)
                self._chunks[key] = chunk
                if parent is not None:
                    parent.children += 1
            chunk.users += 1
            chunk.used = self._clock
            held.append(chunk)
            parent = chunk
        return held

    def release(self, chunks: Sequence[Chunk]) -> None:
        """Give back the chunks of one prompt; those never filled are dropped."""
        for chunk in reversed(chunks):
            chunk.users -= 1
            if chunk.users == 0 and chunk.hidden is None:
                self._drop(chunk)

    def _take_block(self) -> int | None:
        if not self._free:
            idle = [c for c in self._chunks.values() if c.users == 0 and c.children == 0]
            if not idle:
                return None
            self._drop(min(idle, key=lambda chunk: (chunk.used, -chunk.index)))
        return self._free.pop()

    def _drop(self, chunk: Chunk) -> None:
        del self._chunks[chunk.key]
        self._free.append(chunk.block)
        if chunk.parent is not None:
            chunk.parent.children -= 1

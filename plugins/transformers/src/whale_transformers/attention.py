"""Attention of the engine: chunks of prompts, and single tokens of many sequences at once.

Why not the stock kernels: their result for one sequence depends on how the others are padded.
Here every product has a shape that depends on the sequence alone (its chunk number, or fixed
blocks), the batch dimension only counts independent products, and partial results are merged in
the order of absolute positions. Masked places carry ``NOTHING``, which vanishes exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from attrs import define, frozen

from whale_core.keys import generator
from whale_transformers.kv import CHUNK, Chunk, PromptCache

BLOCK = 32  # sampled tokens per block of a sequence's own keys and values
ROWS = 8  # samples that attend one prompt chunk in one product
NOTHING = -1e30
SMALL_PRODUCT = 16**3  # torch gives batched products of up to this many steps to another kernel


class Attention(Protocol):
    """What a forward pass does at each layer with its queries, keys and values."""

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Store ``k, v [kv_heads, rows, dim]``, return the attention of ``q [heads, rows, dim]``
        as ``[rows, heads, dim]``."""
        ...


@frozen
class _Alike:
    """Tiles of a prefill that sit at the same chunk number, so that their shapes are equal."""

    tiles: torch.Tensor  # [n] positions in the forward pass
    blocks: torch.Tensor  # [n * (chunk number + 1)] blocks attended


class PrefillAttention:
    """Each tile is one chunk of a prompt; it attends the chunks before it and itself causally."""

    def __init__(self, cache: PromptCache, paths: Sequence[Sequence[Chunk]]) -> None:
        """Prepare for tiles given by ``paths``: each tile's chunk, preceded by all before it."""
        device = cache.keys[0].device
        self._cache = cache
        self._write = torch.tensor([path[-1].block for path in paths], device=device)
        by_length: dict[int, list[int]] = {}
        for tile, path in enumerate(paths):
            by_length.setdefault(len(path), []).append(tile)
        self._alike = [
            _Alike(
                tiles=torch.tensor(tiles, device=device),
                blocks=torch.tensor([c.block for t in tiles for c in paths[t]], device=device),
            )
            for _, tiles in sorted(by_length.items())
        ]
        above = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=device).triu(1)
        self._causal = torch.zeros(CHUNK, CHUNK, device=device).masked_fill(above, NOTHING)

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """See ``Attention.attend``; ``rows`` is ``CHUNK`` per tile."""
        heads, rows, dim = q.shape
        kv_heads = k.shape[0]
        group, tiles = heads // kv_heads, rows // CHUNK
        keys, values = self._cache.keys[layer], self._cache.values[layer]
        keys.index_copy_(0, self._write, k.view(kv_heads, tiles, CHUNK, dim).transpose(0, 1))
        values.index_copy_(0, self._write, v.view(kv_heads, tiles, CHUNK, dim).transpose(0, 1))
        queries = (q * scale).view(kv_heads, group, tiles, CHUNK, dim).permute(2, 0, 1, 3, 4)
        out = torch.empty(tiles, CHUNK, heads, dim, dtype=q.dtype, device=q.device)
        for alike in self._alike:
            count = len(alike.tiles)
            length = len(alike.blocks) // count * CHUNK
            past_k = _joined(keys, alike.blocks, count)
            past_v = _joined(values, alike.blocks, count)
            query = queries[alike.tiles].reshape(count * kv_heads, group * CHUNK, dim)
            scores = torch.bmm(query, past_k.transpose(1, 2)).float()
            scores.view(-1, CHUNK, length)[:, :, length - CHUNK :] += self._causal
            result = torch.bmm(torch.softmax(scores, dim=-1).to(q.dtype), past_v)
            out[alike.tiles] = result.view(count, heads, CHUNK, dim).transpose(1, 2)
        return out.view(rows, heads, dim)


def _joined(pool: torch.Tensor, blocks: torch.Tensor, count: int) -> torch.Tensor:
    """Return the blocks of ``count`` prompts as ``[count * kv_heads, length, dim]``."""
    _, kv_heads, _, dim = pool.shape
    taken = pool.index_select(0, blocks).view(count, -1, kv_heads, CHUNK, dim)
    return taken.transpose(1, 2).reshape(count * kv_heads, -1, dim)


@define
class SuffixStore:
    """Keys and values of sampled tokens, one row per decoding slot.

    Shape ``[layers, blocks, slots, kv_heads, BLOCK, head_dim]``.
    """

    keys: torch.Tensor
    values: torch.Tensor

    @classmethod
    def reserve(cls, layers: int, blocks: int, slots: int, like: torch.Tensor) -> SuffixStore:
        """Return a zeroed store; ``like`` is a layer of the prompt cache."""
        _, kv_heads, _, dim = like.shape
        shape = (layers, blocks, slots, kv_heads, BLOCK, dim)
        return cls(keys=like.new_zeros(shape), values=like.new_zeros(shape))

    @property
    def blocks(self) -> int:
        """Blocks per slot."""
        return self.keys.shape[1]

    @property
    def slots(self) -> int:
        """Rows that fit."""
        return self.keys.shape[2]

    def move(self, source: Sequence[int], target: Sequence[int]) -> None:
        """Copy rows ``source`` over rows ``target`` (disjoint)."""
        for store in (self.keys, self.values):
            store[:, :, target] = store[:, :, source]

    def wipe(self, rows: Sequence[int]) -> None:
        """Fill ``rows`` with zeros."""
        for store in (self.keys, self.values):
            store[:, :, rows] = 0


@frozen
class _Tasks:
    """Products of one height: ``rows`` queries each at one prompt chunk."""

    rows: int
    blocks: torch.Tensor  # [tasks]
    queries: torch.Tensor  # [tasks * rows] decoding rows
    padding: torch.Tensor  # [tasks, 1, CHUNK] 0 or NOTHING, for chunks that are not full


@frozen
class PromptPlan:
    """How the decoding rows attend their prompts; it holds while the same sequences decode.

    Samples that share a chunk attend it ``ROWS`` at a time, the last few ``narrow`` at a time.
    Row r's p-th chunk is attended in place ``places[p, r]`` of the tasks' results; ``absent[p, r]``
    is ``NOTHING`` for rows without one, whose place is that of their first chunk: another row's
    result would vanish only if it is finite.
    """

    tasks: tuple[_Tasks, ...]
    places: torch.Tensor  # [parts, rows]
    absent: torch.Tensor  # [parts, rows, 1]

    @classmethod
    def make(
        cls, paths: Sequence[Sequence[Chunk]], narrow: int, device: torch.device
    ) -> PromptPlan:
        """Plan for rows whose prompts are the chunks ``paths``; ``narrow`` as ``narrow_rows``."""
        sharing: dict[int, list[int]] = {}
        chunks: dict[int, Chunk] = {}
        for row, path in enumerate(paths):
            for chunk in path:
                sharing.setdefault(chunk.block, []).append(row)
                chunks[chunk.block] = chunk
        work: dict[int, list[tuple[Chunk, list[int]]]] = {ROWS: [], narrow: []}
        for block in sorted(sharing):
            rows = sharing[block]
            whole = len(rows) // ROWS * ROWS
            if len(rows) - whole > ROWS // 2:
                whole = len(rows)
            for height, some in ((ROWS, rows[:whole]), (narrow, rows[whole:])):
                for start in range(0, len(some), height):
                    work[height].append((chunks[block], some[start : start + height]))

        parts = max(len(path) for path in paths)
        places = torch.zeros(parts, len(paths), dtype=torch.long)
        absent = torch.full((parts, len(paths), 1), NOTHING)
        tasks: list[_Tasks] = []
        first = 0
        for height, pairs in work.items():
            if not pairs:
                continue
            padding = torch.zeros(len(pairs), 1, CHUNK)
            queries: list[int] = []
            for index, (chunk, rows) in enumerate(pairs):
                places[chunk.index, rows] = first + len(queries) + torch.arange(len(rows))
                absent[chunk.index, rows] = 0.0
                padding[index, :, len(chunk.tokens) :] = NOTHING
                queries.extend(rows + rows[:1] * (height - len(rows)))
            first += len(queries)
            tasks.append(
                _Tasks(
                    rows=height,
                    blocks=torch.tensor([chunk.block for chunk, _ in pairs], device=device),
                    queries=torch.tensor(queries, device=device),
                    padding=padding.to(device),
                )
            )
        places = torch.where(absent[..., 0] == 0.0, places, places[0])
        return cls(tasks=tuple(tasks), places=places.to(device), absent=absent.to(device))


def narrow_rows(heads: int, like: torch.Tensor) -> int:
    """Return how few queries may attend a chunk in one product: 1, 2, 4 or ``ROWS``.

    Low products save work where few samples share a chunk. They are used where this machine's
    kernels give every query the same bits as in a product of ``ROWS``; that is tried here.
    ``like`` is a layer of the prompt cache.
    """
    _, kv_heads, _, dim = like.shape
    numbers = generator("narrow-rows", heads, kv_heads, dim).standard_normal(
        (heads * ROWS * 2 + kv_heads * CHUNK * 4, dim), dtype=np.float32
    )
    q, kv = torch.split(
        torch.from_numpy(numbers).to(like), [heads * ROWS * 2, kv_heads * CHUNK * 4]
    )
    q = q.view(2, ROWS, heads, dim)
    k, v = kv.view(2, 2, kv_heads, CHUNK, dim)
    padding = torch.zeros(2, 1, CHUNK, device=like.device)
    whole = [part.view(2, ROWS, heads, -1) for part in _partial(q, k, v, padding)]
    for rows in (1, 2, 4):
        alike = True
        for start in range(0, ROWS, rows):
            some = slice(start, start + rows)
            low = _partial(q[:, some].contiguous(), k, v, padding)
            alike &= all(
                torch.equal(part.view(2, rows, heads, -1), reference[:, some])
                for part, reference in zip(low, whole, strict=True)
            )
        if alike:
            return rows
    return ROWS


class DecodeAttention:
    """Each row is the newest token of one sequence: it attends its prompt and its own suffix."""

    def __init__(
        self, cache: PromptCache, plan: PromptPlan, suffix: SuffixStore, lengths: Sequence[int]
    ) -> None:
        """Prepare one step: ``lengths[r]`` tokens of row r's suffix are stored already."""
        device = cache.keys[0].device
        self._cache, self._plan, self._suffix = cache, plan, suffix
        self._count = len(lengths)
        stored = torch.tensor(lengths)
        self._rows = torch.arange(self._count, device=device)
        self._block = (stored // BLOCK).to(device)
        self._place = (stored % BLOCK).to(device)
        blocks = max(lengths) // BLOCK + 1
        positions = torch.arange(blocks * BLOCK).view(blocks, 1, 1, BLOCK)
        hidden = positions > stored.view(1, -1, 1, 1)
        self._padding = torch.zeros(hidden.shape).masked_fill(hidden, NOTHING).to(device)

    def attend(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """See ``Attention.attend``; rows beyond the sequences are padding and come out zero."""
        heads, rows, dim = q.shape
        n = self._count
        query = (q * scale).transpose(0, 1)[:n]
        keys, values = self._suffix.keys[layer], self._suffix.values[layer]
        keys[self._block, self._rows, :, self._place] = k.transpose(0, 1)[:n]
        values[self._block, self._rows, :, self._place] = v.transpose(0, 1)[:n]
        outputs: list[torch.Tensor] = []
        weights: list[torch.Tensor] = []
        self._attend_prompts(layer, query, outputs, weights)
        for block, padding in enumerate(self._padding):
            output, weight = _partial(query[:, None], keys[block, :n], values[block, :n], padding)
            outputs.append(output)
            weights.append(weight)
        merged = _merged(outputs, weights)
        out = torch.zeros(rows, heads, dim, dtype=q.dtype, device=q.device)
        out[:n] = merged
        return out

    def _attend_prompts(
        self,
        layer: int,
        query: torch.Tensor,
        outputs: list[torch.Tensor],
        weights: list[torch.Tensor],
    ) -> None:
        done: list[tuple[torch.Tensor, torch.Tensor]] = []
        for tasks in self._plan.tasks:
            keys = self._cache.keys[layer].index_select(0, tasks.blocks)
            values = self._cache.values[layer].index_select(0, tasks.blocks)
            queries = query.index_select(0, tasks.queries).view(-1, tasks.rows, *query.shape[1:])
            done.append(_partial(queries, keys, values, tasks.padding))
        output, weight = done[0] if len(done) == 1 else map(torch.cat, zip(*done, strict=True))
        for places, absent in zip(self._plan.places, self._plan.absent, strict=True):
            outputs.append(output.index_select(0, places))
            weights.append(weight.index_select(0, places) + absent)


def _partial(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, padding: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend one block each: ``q [n, r, heads, dim]`` at ``k, v [n, kv_heads, length, dim]``.

    ``padding [n, 1, length]`` is added to the scores. Return the attention over that block
    ``[n * r, heads, dim]`` and its log-sum-exp ``[n * r, heads]``.
    """
    n, r, heads, dim = q.shape
    kv_heads, length = k.shape[1:3]
    if n * r * heads * dim * length <= SMALL_PRODUCT:
        copies = SMALL_PRODUCT // (n * r * heads * dim * length) + 1
        repeated = (x.repeat(copies, *[1] * (x.dim() - 1)) for x in (q, k, v, padding))
        output, weight = _partial(*repeated)
        return output[: n * r], weight[: n * r]
    group = heads // kv_heads
    grouped = q.view(n, r, kv_heads, group, dim).transpose(1, 2).reshape(-1, r * group, dim)
    scores = torch.bmm(grouped, k.view(-1, length, dim).transpose(1, 2)).float()
    scores.view(n, -1, length).add_(padding)
    weight = torch.logsumexp(scores, dim=-1).view(n, kv_heads, r, group)
    output = torch.bmm(torch.softmax(scores, dim=-1).to(q.dtype), v.view(-1, length, dim))
    output = output.view(n, kv_heads, r, group, dim).transpose(1, 2).reshape(n * r, heads, dim)
    return output, weight.transpose(1, 2).reshape(n * r, heads)


def _merged(outputs: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]) -> torch.Tensor:
    """Merge partial attentions in order; parts of weight ``NOTHING`` add exact zeros."""
    stacked = torch.stack(list(weights))
    shares = torch.exp(stacked - stacked.amax(dim=0))[..., None]
    total = torch.zeros_like(shares[0])
    merged = torch.zeros(outputs[0].shape, dtype=torch.float32, device=outputs[0].device)
    for output, share in zip(outputs, shares, strict=True):
        total += share
        merged.addcmul_(output.float(), share)
    return merged / total

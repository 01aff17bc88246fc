"""Attention over a packed prefix tree, as an attention implementation of ``transformers``.

A dense mask over S packed tokens costs S², though a token sees only its own row. Here the packed
order is cut into blocks of consecutive tokens; the queries of a block attend to the ancestors of
its first token and to the block itself, which together hold all they may see (depth-first order:
what precedes the block and is seen from inside it is also seen by its first token).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from attrs import frozen
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from whale_core.errors import InputError
from whale_rsft.packing import Pack

NAME = "whale_rsft_tree"
BLOCK_COST = 16384  # what one more block costs, in query-key pairs (measured on a CPU)


@frozen
class Block:
    """Consecutive queries, and the parts of the packed order that they attend to."""

    parts: tuple[int, ...]  # ancestors of the first query, then the queries themselves
    mask: Tensor  # bool[queries, tokens in parts]


@frozen
class Tree:
    """How packed tokens attend: query blocks, and parts of keys and values that blocks share."""

    blocks: tuple[Block, ...]
    query_sizes: list[int]  # tokens of each block
    part_sizes: list[int]  # tokens of each part


def attention_tree(pack: Pack, device: torch.device) -> Tree:
    """Cut ``pack`` at branches, where that saves more query-key pairs than a block costs."""
    cuts = _cuts(pack.positions)
    keys = [
        np.concatenate([np.flatnonzero(pack.ends[:start] > start), np.arange(start, stop)])
        for start, stop in cuts
    ]
    edges = {0, len(pack.positions)}
    for seen in keys:
        gaps = np.flatnonzero(np.diff(seen) != 1)
        edges |= {int(seen[0]), int(seen[-1]) + 1}
        edges |= {int(edge) for i in gaps for edge in (seen[i] + 1, seen[i + 1])}
    bounds = sorted(edges)
    blocks = []
    for (start, stop), seen in zip(cuts, keys, strict=True):
        queries = np.arange(start, stop)[:, None]
        mask = (seen <= queries) & (queries < pack.ends[seen])
        parts = np.flatnonzero(np.isin(bounds[:-1], seen)).tolist()
        blocks.append(Block(tuple(parts), torch.from_numpy(mask).to(device)))
    return Tree(
        blocks=tuple(blocks),
        query_sizes=[stop - start for start, stop in cuts],
        part_sizes=np.diff(bounds).tolist(),
    )


def _cuts(positions: np.ndarray[Any, Any]) -> list[tuple[int, int]]:
    """Return the cheapest blocks: shortest path over the places where a branch begins."""
    branches = np.flatnonzero(np.diff(positions) != 1) + 1
    places = [0, *branches.tolist(), len(positions)]
    cost = [0] + [0] * (len(places) - 1)
    came_from = [0] * len(places)
    for j in range(1, len(places)):
        options = []
        for i in range(j):
            queries = places[j] - places[i]
            pairs = queries * (int(positions[places[i]]) + queries)
            options.append((cost[i] + pairs + BLOCK_COST, i))
        cost[j], came_from[j] = min(options)
    blocks: list[tuple[int, int]] = []
    j = len(places) - 1
    while j:
        blocks.append((places[came_from[j]], places[j]))
        j = came_from[j]
    return blocks[::-1]


@contextmanager
def tree_attention(module: nn.Module) -> Iterator[None]:
    """Within this context ``module(..., tree=tree)`` attends as the tree says."""
    config: Any = module.config
    before = config._attn_implementation
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = before


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    tree: Tree,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Attend with ``query [1, H, S, D]``, ``key`` and ``value [1, KV, S, D]``; ``[1, S, H, D]``."""
    del attention_mask  # the tree says it all
    if others.get("sliding_window") is not None or others.get("softcap") is not None:
        raise InputError(
            f"rsft cannot train {type(module).__name__} layers with a sliding window or soft cap: "
            "use a model with plain full attention (Llama, Qwen3, SmolLM2, …)"
        )
    groups = query.shape[1] // key.shape[1]
    key_parts, value_parts = (torch.split(t, tree.part_sizes, dim=2) for t in (key, value))
    attended = []
    for queries, block in zip(
        torch.split(query, tree.query_sizes, dim=2), tree.blocks, strict=True
    ):
        keys, values = (
            torch.cat([parts[i] for i in block.parts], dim=2).repeat_interleave(groups, dim=1)
            for parts in (key_parts, value_parts)
        )
        attended.append(
            scaled_dot_product_attention(queries, keys, values, block.mask, scale=scaling)
        )
    return torch.cat(attended, dim=2).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _attend)

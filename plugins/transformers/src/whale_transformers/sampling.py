"""Drawing tokens: inverse distribution functions over filtered, sorted probabilities.

Everything here is a function of one row's logits, its settings and its uniform number: rows are
computed side by side but nothing crosses between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from whale_core.records import Sampling

VOCABULARY_CHUNK = 4096  # columns of logits computed at a time: their weights stay in the CPU cache
OPEN_DEPTH = 256  # candidates looked at first when top_k does not bound them
SPARE = 8  # extra candidates per chunk, so that ties at the k-th place seldom need the slow path

Draws = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]


def draw(
    chunks: Sequence[torch.Tensor],
    settings: Sequence[Sampling],
    uniforms: npt.NDArray[np.float64],
) -> Draws:
    """Draw one token per row; return ids ``int64[n]`` and log-probabilities ``float32[n]``.

    ``chunks`` hold the logits ``[rows, vocabulary]`` cut along the vocabulary; rows beyond the n
    settings are padding, at least one row in all (a reduction to a single number may be split
    over threads, one to several numbers never is). Candidates are in order of descending
    probability, ties by token id; ``top_k`` keeps the first k (0: all), then
    ``top_p`` the shortest prefix that holds this share of them; the uniform number picks by
    cumulated probability. Temperature 0 takes the first (its log-probability is that at
    temperature 1). A row whose logits are not finite gets token 0 and NaN.
    """
    count = len(settings)
    vocabulary = sum(chunk.shape[1] for chunk in chunks)
    depth = np.array([_depth(s, vocabulary) for s in settings])
    temperature = torch.ones(chunks[0].shape[0], 1)
    temperature[:count, 0] = torch.tensor([s.temperature or 1.0 for s in settings])
    temperature = temperature.to(chunks[0].device)

    width = int(depth.max()) + SPARE
    normalisers, values, ids, floors = [], [], [], []
    offset = 0
    for chunk in chunks:
        scaled = chunk.float() / temperature
        normalisers.append(torch.logsumexp(scaled, dim=1))
        top = torch.topk(scaled[:count], min(width, scaled.shape[1]), dim=1)
        values.append(top.values)
        ids.append(top.indices + offset)
        full = top.values.shape[1] == scaled.shape[1]
        floors.append(torch.full_like(top.values[:, 0], -torch.inf) if full else top.values[:, -1])
        offset += chunk.shape[1]
    normaliser = torch.logsumexp(torch.stack(normalisers, dim=1), dim=1)[:count].cpu().numpy()
    value_array = torch.cat(values, dim=1).cpu().numpy()
    broken = ~np.isfinite(normaliser)
    normaliser[broken] = 0.0
    value_array[broken] = 0.0
    id_array = torch.cat(ids, dim=1).cpu().numpy()
    floor = torch.stack(floors, dim=1).amax(dim=1).cpu().numpy()

    order = np.lexsort((id_array, -value_array), axis=1)[:, : int(depth.max())]
    value_array = np.take_along_axis(value_array, order, axis=1)
    id_array = np.take_along_axis(id_array, order, axis=1)
    rank = np.arange(value_array.shape[1])[None, :]
    mass = np.exp(value_array.astype(np.float64) - normaliser[:, None])
    mass[rank >= depth[:, None]] = 0.0
    cumulated = np.cumsum(mass, axis=1)

    tokens = np.empty(count, dtype=np.int64)
    logprobs = np.empty(count, dtype=np.float32)
    for row, sampling in enumerate(settings):
        if broken[row]:
            tokens[row], logprobs[row] = 0, np.nan
            continue
        last = value_array[row, depth[row] - 1]
        place = None
        if last > floor[row]:  # no candidate of equal or higher value can have been missed
            complete = bool(_bounded(sampling) or depth[row] == vocabulary)
            place = _pick(cumulated[row, : depth[row]], sampling, uniforms[row], complete)
        if place is not None:
            tokens[row] = id_array[row, place]
            logprobs[row] = value_array[row, place] - normaliser[row]
        else:
            tokens[row], logprobs[row] = _draw_from_all(
                torch.cat([chunk[row] for chunk in chunks]),
                sampling,
                uniforms[row],
                normaliser[row],
            )
    return tokens, logprobs


def _depth(sampling: Sampling, vocabulary: int) -> int:
    """Return how many candidates to look at first."""
    if sampling.temperature == 0:
        return 1
    return min(sampling.top_k or OPEN_DEPTH, vocabulary)


def _bounded(sampling: Sampling) -> bool:
    """Return whether the number of candidates is limited by the settings."""
    return sampling.temperature == 0 or sampling.top_k > 0


def _pick(
    cumulated: npt.NDArray[np.float64], sampling: Sampling, uniform: float, complete: bool
) -> int | None:
    """Return the index drawn, or None when it may lie beyond these candidates.

    ``cumulated`` is the cumulated unfiltered probability of the sorted candidates; ``complete``
    says that there are no others.
    """
    total = cumulated[-1] if _bounded(sampling) else 1.0
    if sampling.top_p < 1.0:
        kept = int(np.searchsorted(cumulated, sampling.top_p * total, side="left"))
        if kept < len(cumulated):
            total = cumulated[kept]
        elif not complete:
            return None
    place = int(np.searchsorted(cumulated, uniform * total, side="right"))
    if place < len(cumulated):
        return place
    return len(cumulated) - 1 if complete else None


def _draw_from_all(
    logits: torch.Tensor, sampling: Sampling, uniform: float, normaliser: np.float32
) -> tuple[int, np.float32]:
    """Draw from one whole row of logits, sorted: the slow, general path."""
    scaled = logits.float() / torch.tensor(sampling.temperature or 1.0, dtype=torch.float32)
    values, ids = torch.sort(scaled, descending=True, stable=True)
    count = 1 if sampling.temperature == 0 else (sampling.top_k or len(values))
    numbers = values[:count].cpu().numpy()
    cumulated = np.cumsum(np.exp(numbers.astype(np.float64) - normaliser))
    place = _pick(cumulated, sampling, uniform, complete=True)
    assert place is not None
    return int(ids[place]), np.float32(numbers[place] - normaliser)


def vocabulary_chunks(
    project: Callable[[int, int], torch.Tensor], vocabulary: int
) -> list[torch.Tensor]:
    """Return ``project(start, end)`` for consecutive ranges of the vocabulary."""
    starts = range(0, vocabulary, VOCABULARY_CHUNK)
    return [project(start, min(start + VOCABULARY_CHUNK, vocabulary)) for start in starts]

"""How often the intervals hold the truth, and the paired tests call a null significant.

    python benchmarks/coverage.py run [--replicates 20000]    simulate; write the JSON
    python benchmarks/coverage.py table                       print its tables as Markdown

The formulas are the package's (``whale_core.stats``); only the scores are made up.

A world has n examples, k draws each, a pass rate p and a correlation r of two draws on one example.
An example's own pass rate is Beta distributed with mean p and a + b = 1/r - 1, so that the passes
among its draws are beta-binomial with exactly that correlation (r = 0: all examples at p; k = 1: r
plays no part). A second condition has pass rate p + gain and the same r, and its examples are

- ``shared``: ranked alike, equally hard where the gain is 0;
- ``separate``: of a difficulty that has nothing to do with the first condition's;
- ``repeated`` (gain 0 only): nine of ten examples give the very rewards of the first (as two
  harnesses do that seldom differ, under common draws), the others are ``shared``.

The counts of examples by outcome are drawn from the exact joint distribution.

A ``Crossed`` world has several seeds besides, of which every one has every example: a run's own
pass rate is off its condition's by a normal amount (16 quantiles of it) with standard deviation
``spread`` x p, the two conditions' runs independently. Everything is a
function of the names of a world: counter-based, no seed to choose.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from attrs import asdict, frozen
from scipy import special, stats

import whale_core.stats
from whale_core.keys import content_hash, generator
from whale_core.stats import (
    Array,
    critical_value,
    crossed_variance,
    difference_limits,
    mean_limits,
    sign_flip_p,
)

FILE = Path(__file__).parent.parent / "docs/evidence/statistics/coverage.json"
SIZES, DRAWS, RATES = (60, 256, 700), (1, 8), (0.005, 0.02, 0.2, 0.5)
CORRELATIONS, GAINS, TIES = (0.0, 0.3, 0.8), (0.0, 0.05), ("shared", "separate", "repeated")
REPEATED = 0.9
SEEDS, SPREADS, CROSSED_RATES = (5, 10), (0.0, 0.2), (0.02, 0.2)
CROSSED_SIZES = ((60, 8), (256, 1))  # n, k
CORRELATION = 0.3  # of two draws, where there are seeds
PLACES, LEVELS_OF_A_SEED = 1_000, 16  # points of difficulty, and of a run's own rate
CROSSED = 4_000  # replicates where there are seeds
GRID = 4_000  # points of the distribution of difficulty
REPLICATES = 20_000
TESTED = 10_000  # replicates of the paired test
CHUNKS, CHECKED = 40, 5  # parts that the test is computed in; of a cell compared with the package
LEVELS = (0.025, 0.05)
FORMULAS = ("intervals", "paired", "crossed")  # the modules that the figures are of


@frozen
class World:
    """A cell of the grid; ``tie`` is None for one condition alone."""

    n: int
    k: int
    p: float
    r: float
    tie: str | None = None
    gain: float = 0.0

    def rng(self, what: str) -> np.random.Generator:
        """Return the generator of this world for one purpose."""
        return generator("coverage", what, json.dumps(asdict(self)))


def worlds() -> Iterator[World]:
    """Yield the grid. What r cannot change (k = 1) and what repeats a cell (r = 0) is once."""
    for n, k, p, r in product(SIZES, DRAWS, RATES, CORRELATIONS):
        if k > 1 or r == 0:
            yield World(n, k, p, r)
    for tie, n, k, p, r, gain in product(TIES, SIZES, DRAWS, RATES, CORRELATIONS, GAINS):
        if (tie == "separate" and (k == 1 or r == 0)) or (tie == "repeated" and gain > 0):
            continue
        yield World(n, k, p, r, tie, gain)


@frozen
class Crossed:
    """A cell with seeds."""

    seeds: int
    n: int
    k: int
    p: float
    spread: float
    tie: str
    gain: float


def crossed_worlds() -> Iterator[Crossed]:
    """Yield the cells with seeds."""
    grid = product(SEEDS, CROSSED_SIZES, CROSSED_RATES, SPREADS, TIES[:2], GAINS)
    for seeds, (n, k), p, spread, tie, gain in grid:
        yield Crossed(seeds, n, k, p, spread, tie, gain)


def crossed_cell(world: Crossed, replicates: int) -> dict[str, Any]:
    """Simulate ``crossed_variance`` and Student's t with its degrees of freedom."""
    rng = generator("coverage", "crossed", json.dumps(asdict(world)))
    shape = (replicates, world.seeds, world.n)
    place = rng.integers(0, PLACES, (replicates, 1, world.n))
    means = []
    for rate in (world.p + world.gain, world.p):
        if world.tie == "separate":
            place = rng.integers(0, PLACES, place.shape)
        level = rng.integers(0, LEVELS_OF_A_SEED, (replicates, world.seeds, 1))
        own = rates_of_runs(rate, world)[level, place]
        draws = rng.random(shape) < own if world.k == 1 else rng.binomial(world.k, own)
        means.append(draws / world.k)
    mean, variance, freedom = crossed_variance(means[0] - means[1])
    half = special.stdtrit(freedom, 0.975) * np.sqrt(variance)
    return outcome(mean - half, mean + half, world.gain, mean)


def rates_of_runs(rate: float, world: Crossed) -> Array:
    """Return pass rates, shape (LEVELS_OF_A_SEED, PLACES): mean over both is ``rate``."""
    normal = stats.norm.ppf((np.arange(LEVELS_OF_A_SEED) + 0.5) / LEVELS_OF_A_SEED)
    own = (rate + world.spread * world.p * normal / normal.std())[:, None]
    total, at = 1 / CORRELATION - 1, (np.arange(PLACES) + 0.5) / PLACES
    return np.asarray(np.clip(special.betaincinv(own * total, (1 - own) * total, at), 0.0, 1.0))


def passes(k: int, p: float, r: float) -> Array:
    """Return the chance of 0 … k passes at each difficulty of the grid: shape (k + 1, GRID)."""
    rates = np.full(GRID, p)
    if r > 0:
        place, total = (np.arange(GRID) + 0.5) / GRID, 1 / r - 1
        rates = np.clip(special.betaincinv(p * total, (1 - p) * total, place), 0.0, 1.0)
    count = np.arange(k + 1)[:, None]
    return np.asarray(special.binom(k, count) * rates**count * (1 - rates) ** (k - count))


def one_condition(world: World) -> Array:
    """Return the chance of 0 … k passes on an example: exact."""
    count = np.arange(world.k + 1)
    if world.r == 0:
        return np.asarray(stats.binom.pmf(count, world.k, world.p))
    total = 1 / world.r - 1
    return np.asarray(stats.betabinom.pmf(count, world.k, world.p * total, (1 - world.p) * total))


def two_conditions(world: World) -> Array:
    """Return the joint chance of the passes of both on an example, shape (k + 1, k + 1)."""
    new = passes(world.k, world.p + world.gain, world.r)
    old = passes(world.k, world.p, world.r)
    if world.tie == "separate":
        return np.outer(new.mean(1), old.mean(1))
    joint = new @ old.T / GRID
    if world.tie == "repeated":
        joint = (1 - REPEATED) * joint + REPEATED * np.diag(old.mean(1))
    return np.asarray(joint)


def mean_cell(world: World, replicates: int) -> dict[str, Any]:
    """Simulate ``mean_interval``."""
    chances, values = one_condition(world), np.arange(world.k + 1) / world.k
    counts = world.rng("mean").multinomial(world.n, chances, replicates)
    means = counts @ values / world.n
    variances = (counts @ values**2 - world.n * means**2) / (world.n - 1)
    low, high = mean_limits(means, variances, world.n, world.k, critical_value(world.n))
    return outcome(low, high, world.p, means)


def paired_cell(world: World, replicates: int, tested: int) -> dict[str, Any]:
    """Simulate ``paired_difference``, and where the gain is 0 ``sign_flip_p``."""
    chances, values = two_conditions(world), np.arange(world.k + 1) / world.k
    difference: Array = np.subtract.outer(values, values).ravel()
    truth = float(chances.ravel() @ difference)
    counts = world.rng("paired").multinomial(world.n, chances.ravel() / chances.sum(), replicates)
    won = np.asarray(counts @ np.maximum(difference, 0.0), float)
    lost = np.asarray(counts @ np.maximum(-difference, 0.0), float)
    squares = counts @ difference**2
    low, high = difference_limits(won, lost, squares, world.n, critical_value(world.n))
    found = outcome(low, high, truth, (won - lost) / world.n)
    if world.gain == 0:
        differing = world.n - counts[:, difference == 0].sum(1)
        found["attainable"] = attainable_null(differing)
        if tested:
            found["test"] = level_of_test(counts[:tested], difference)
    return found


def outcome(low: Array, high: Array, truth: float, estimates: Array) -> dict[str, Any]:
    """Return the coverage, how often the truth is below and above, and what is attainable."""
    below, above = float(np.mean(low > truth + 1e-9)), float(np.mean(high < truth - 1e-9))
    return {
        "coverage": round(1 - below - above, 5),
        "truth_below": round(below, 5),
        "truth_above": round(above, 5),
        "width": round(float(np.mean(high - low)), 5),
        "attainable": attainable(estimates),
    }


def attainable(estimates: Array) -> float:
    """Return the least coverage of an interval that misses on either side at most 2.5 % of the
    time, where an estimate that is further off is missed first: 1 less, on each side, the largest
    chance of a tail of estimates that is no more than 2.5 %."""
    shares = np.unique(np.round(estimates, 9), return_counts=True)[1] / len(estimates)
    tails = [np.cumsum(shares), np.cumsum(shares[::-1])]
    missed = sum(float(np.max(tail, where=tail <= 0.025, initial=0.0)) for tail in tails)
    return round(1 - missed, 5)


def attainable_null(differing: Array) -> float:
    """Return the least coverage where no difference is true and 0 may be left out only if the exact
    paired test finds p <= 2.5 % on a side: with m examples that differ its p-values are multiples
    of 1 / 2**m."""
    counts = np.minimum(differing, 60)
    steps = 2.0**counts
    return round(float(1 - 2 * np.mean(np.floor(0.025 * steps) / steps)), 5)


def level_of_test(counts: Any, difference: Array) -> dict[str, float]:
    """Return how often the paired test is at most a level, on the replicates' differences."""
    whole = np.rint(difference / np.min(np.abs(difference), where=difference != 0, initial=1.0))
    largest = int(whole.max())
    sizes = np.arange(1, largest + 1)
    differing = np.stack([counts[:, np.abs(whole) == size].sum(1) for size in sizes], axis=1)
    found = np.concatenate(
        [
            flip_p_values(part, sums)
            for part, sums in zip(
                np.array_split(differing, CHUNKS),
                np.array_split(counts @ whole, CHUNKS),
                strict=True,
            )
        ]
    )
    for row, p_value in zip(counts[:CHECKED], found, strict=False):
        assert abs(sign_flip_p(np.repeat(difference, row)) - p_value) < 1e-9
    return {f"{level:g}": round(float(np.mean(found <= level)), 5) for level in LEVELS}


def flip_p_values(differing: Any, sums: Array) -> Array:
    """Return what ``sign_flip_p`` returns, for many samples at once.

    ``differing`` counts the examples of each size of difference 1, 2, …: shape (samples, sizes).
    The sum under random signs has the characteristic function of a product of cosines.
    """
    sizes = np.arange(1, differing.shape[1] + 1)
    most = int((differing @ sizes).max())
    length = 1 << (2 * most + 1).bit_length()
    cosines = np.cos(2 * np.pi * np.outer(sizes, np.arange(length // 2 + 1)) / length)
    magnitude = np.exp(differing @ np.log(np.maximum(np.abs(cosines), 1e-300)))
    negative = (differing @ (cosines < 0).astype(float)) % 2
    chances = np.fft.irfft(magnitude * (1 - 2 * negative), length, axis=1)
    ordered = np.fft.fftshift(chances, axes=1)  # sums from -length / 2 on
    tails = np.cumsum(ordered[:, ::-1], axis=1)[:, ::-1]
    places = np.rint(sums).astype(int) + length // 2
    return np.asarray(np.clip(tails[np.arange(len(sums)), places], 0.0, 1.0))


def simulate(world: World, replicates: int, tested: int = 0) -> dict[str, Any]:
    """Return what one cell shows."""
    if world.tie is None:
        return mean_cell(world, replicates)
    return paired_cell(world, replicates, tested)


def source_hash() -> str:
    """Return a hash of the code that the figures are of."""
    folder = Path(whale_core.stats.__file__).parent
    files = [*(folder / f"{name}.py" for name in FORMULAS), Path(__file__)]
    return content_hash(*(file.read_text() for file in files))


def run(replicates: int, tested: int) -> None:
    """Simulate the grid and write ``FILE``."""
    cells, start = [], time.process_time()
    crossed = [{**asdict(w), **crossed_cell(w, CROSSED)} for w in crossed_worlds()]
    for world in worlds():
        cells.append({**asdict(world), **simulate(world, replicates, tested)})
        print(json.dumps(cells[-1]), file=sys.stderr, flush=True)
    seconds = round(time.process_time() - start)
    write(cells, crossed, replicates, tested, seconds)


def write(
    cells: list[dict[str, Any]],
    crossed: list[dict[str, Any]],
    replicates: int,
    tested: int,
    seconds: int,
) -> None:
    """Write ``FILE``, one cell a line."""
    heading = {
        "command": "python benchmarks/coverage.py run",
        "source": source_hash(),
        "replicates": replicates,
        "tested": tested,
        "crossed_replicates": CROSSED,
        "cpu_seconds": seconds,
    }
    FILE.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(heading, indent=1)[:-2]
    for name, some in (("cells", cells), ("crossed", crossed)):
        lines = ",\n  ".join(json.dumps(cell) for cell in some)
        text += f',\n "{name}": [\n  {lines}\n ]'
    text += "\n}\n"
    FILE.write_text(text)


def tables(data: dict[str, Any]) -> str:
    """Return the Markdown tables of a result."""
    cells = data["cells"]
    parts = ["Of a mean:", mean_table([cell for cell in cells if cell["tie"] is None])]
    for tie, gain in product(TIES, GAINS):
        mine = [cell for cell in cells if cell["tie"] == tie and cell["gain"] == gain]
        if mine:
            parts += [f"Of a paired difference, `{tie}`, true gain {gain:g}:", mean_table(mine)]
    parts += ["Of seeds × examples:", crossed_table(data["crossed"])]
    parts += ["Cells above 97 %:", high_table([c for c in cells if c["coverage"] > 0.97])]
    parts += ["Largest level found of the paired test:", level_table(cells)]
    return "\n\n".join(parts) + "\n"


def mean_table(cells: list[dict[str, Any]]) -> str:
    """Return coverage by n and k (rows) and p and r (columns), in per cent."""
    columns = sorted({(cell["p"], cell["r"]) for cell in cells})
    found = {(c["n"], c["k"], c["p"], c["r"]): c["coverage"] for c in cells}
    rows = sorted({(cell["n"], cell["k"]) for cell in cells})
    head = "| n × k | " + " | ".join(f"{p:g}, {r:g}" for p, r in columns) + " |"
    lines = [head, "|---" * (len(columns) + 1) + "|"]
    for n, k in rows:
        values = [found.get((n, k, p, r)) for p, r in columns]
        shown = ["" if value is None else f"{100 * value:.1f}" for value in values]
        lines.append(f"| {n} × {k} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def crossed_table(cells: list[dict[str, Any]]) -> str:
    """Return coverage by seeds, n and k (rows) and the others (columns), in per cent."""
    names = ("p", "spread", "tie", "gain")
    columns = list(dict.fromkeys(tuple(cell[name] for name in names) for cell in cells))
    found = {(c["seeds"], c["n"], c["k"], *(c[name] for name in names)): c for c in cells}
    rows = list(dict.fromkeys((c["seeds"], c["n"], c["k"]) for c in cells))
    head = " | ".join(f"{n} × {k}, {seeds} seeds" for seeds, n, k in rows)
    lines = [f"| p, spread, tie, gain | {head} |", "|---" * (len(rows) + 1) + "|"]
    for column in columns:
        values = " | ".join(f"{100 * found[row + column]['coverage']:.1f}" for row in rows)
        lines.append(f"| {', '.join(map(str, column))} | {values} |")
    return "\n".join(lines)


def high_table(cells: list[dict[str, Any]]) -> str:
    """Return the cells that cover more than 97 %, beside what is attainable there."""
    lines = ["| world | n × k | p, r | gain | coverage | attainable |", "|---|---|---|---|---|---|"]
    for c in cells:
        lines.append(
            f"| {c['tie'] or 'mean'} | {c['n']} × {c['k']} | {c['p']:g}, {c['r']:g} |"
            f" {c['gain']:g} | {100 * c['coverage']:.1f} | {100 * c['attainable']:.1f} |"
        )
    return "\n".join(lines)


def level_table(cells: list[dict[str, Any]]) -> str:
    """Return the highest level found, of the test and of the interval, over all null cells."""
    nulls = [cell for cell in cells if cell["tie"] and cell["gain"] == 0]
    lines = ["| rule | nominal | highest, over the null worlds |", "|---|---|---|"]
    for level in LEVELS:
        worst = max(c["test"][f"{level:g}"] for c in nulls if "test" in c)
        lines.append(f"| `sign_flip_p`, one-sided | {100 * level:g} % | {100 * worst:.2f} % |")
    worst = max(1 - c["coverage"] for c in nulls)
    lines.append(f"| interval leaves out 0, two-sided | 5 % | {100 * worst:.2f} % |")
    return "\n".join(lines)


def main() -> None:
    """Run or print."""
    parser = argparse.ArgumentParser(description="Coverage of intervals and level of tests.")
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--replicates", type=int, default=REPLICATES)
    parser.add_argument("--tested", type=int, default=TESTED)
    options = parser.parse_args()
    if options.command == "run":
        run(options.replicates, options.tested)
    print(tables(json.loads(FILE.read_text())), end="")


if __name__ == "__main__":
    main()

"""How often acceptance rules err, what they find and what they cost, by simulation.

    python benchmarks/acceptance.py [--phases 400] [--json FILE]

The rules are those of the package (``whale_metaharness.acceptance``), at their defaults unless a
row says otherwise; only the rollouts are made up. A phase scores the incoming harness and 16
candidates in four iterations of four, on 256 examples, one rollout each; 256 further examples are
unseen. One candidate is better by the stated gain, the others are no better on average (gain 0:
none is).

What is assumed of a rollout: an example's difficulty is Beta distributed with mean p and variance
p (1 - p) / 2 (most examples are easy or hopeless); each candidate suits some examples more and
others less (a normal shift of standard deviation 0.5 of the probit of its pass rate); common draws
make the latent luck of two harnesses on one example correlate by 0.3. Everything is a function of
``--seed``. Prints Markdown tables, and how long it took on standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen
from scipy import optimize, special

from whale_core.keys import generator
from whale_core.records import Example
from whale_core.roles import Score
from whale_metaharness.acceptance import Rule, make_rule
from whale_metaharness.config import Config

ITERATIONS, PER_ITERATION = 4, 4
CANDIDATES = ITERATIONS * PER_ITERATION
EXAMPLES, MORE = 256, 256
RATES, GAINS = (0.02, 0.2, 0.4), (0, 2, 5, 10)
SPREAD = 1.0  # the Beta distribution's two parameters sum to this
TASTE = 0.5  # standard deviation of a candidate's own shift, in probits
LUCK = 0.3  # correlation of two harnesses' luck under one draw key
SPLIT = tuple(Example(f"e{n}", {}, f"g{n}") for n in range(EXAMPLES + MORE))
NAMES = [example.id for example in SPLIT]
PLACE = {name: place for place, name in enumerate(NAMES)}
IDS = [f"h{n:04d}" for n in range(1 + CANDIDATES)]

RULES = {
    "argmax": Config(),
    "confirmed": Config(acceptance="confirmed"),
    "halving": Config(acceptance="halving"),
}
CHOICES = {
    "argmax, minimum gain 5 points": Config(minimum_gain=0.05),
    "confirmed, error rate 0.05": Config(acceptance="confirmed", error_rate=0.05),
    "confirmed, error rate 0.2": Config(acceptance="confirmed", error_rate=0.2),
    "confirmed, best 2": Config(acceptance="confirmed", confirm_best=2),
    "confirmed, best 4": Config(acceptance="confirmed", confirm_best=4),
    "confirmed, 1 draw": Config(acceptance="confirmed", confirm_draws=1),
    "confirmed, 4 draws": Config(acceptance="confirmed", confirm_draws=4),
    "halving, minimum gain 5 points": Config(acceptance="halving", minimum_gain=0.05),
}


@define
class Simulated:
    """The measures of one made-up phase: pass rates by harness and example, and luck as asked for.

    ``probits`` has one row per harness and one column per example.
    """

    probits: np.ndarray
    rng: np.random.Generator
    names: tuple[str | int, ...]
    examples: Sequence[Example] = SPLIT[:EXAMPLES]
    unseen: Sequence[Example] = SPLIT[EXAMPLES // 2 :]
    rollouts: int = 0
    _passed: dict[tuple[str, int], np.ndarray] = field(factory=dict)
    _fresh: dict[str, Score] = field(factory=dict)

    async def score(
        self,
        ids: Sequence[str],
        examples: Sequence[Example] | None = None,
        draws: int | None = None,
        purpose: str = "score",
        first_draw: int = 0,
    ) -> list[Score]:
        """Score as asked, and count the rollouts."""
        on = self.examples if examples is None else examples
        names = [example.id for example in on]
        places = [PLACE[name] for name in names]
        passed = [self._draw(purpose, first_draw + k)[:, places] for k in range(draws or 1)]
        result = []
        for identifier in ids:
            row = IDS.index(identifier)
            rewards = [each[row].tolist() for each in passed]
            values = list(zip(*rewards, strict=True))
            count = len(values) * len(passed)
            self.rollouts += count
            mean = sum(map(sum, rewards)) / count
            rewarded = dict(zip(names, values, strict=True))
            result.append(Score(identifier, "w", mean, count, 0, rewarded, 1.0, count))
        return result

    def record(self, identifier: str, score: Score, kind: str = "score") -> None:
        """Keep what candidates are compared by."""
        if kind == "score":
            self._fresh[identifier] = score

    def fresh(self) -> list[tuple[str, Score]]:
        """Return the scores so far."""
        return [(name, self._fresh[name]) for name in IDS if name in self._fresh]

    def _draw(self, purpose: str, draw: int) -> np.ndarray:
        """Return what every harness gets on every example under one draw key."""
        if (purpose, draw) not in self._passed:
            common = self.rng.standard_normal(len(SPLIT))
            own = self.rng.standard_normal(self.probits.shape)
            luck = np.sqrt(LUCK) * common + np.sqrt(1 - LUCK) * own
            self._passed[purpose, draw] = (luck < self.probits).astype(float)
        return self._passed[purpose, draw]


@frozen
class World:
    """A mean pass rate, and the shifts that make candidates no better, or better by the gain."""

    rate: float
    gain: int
    same: float
    better: float

    @classmethod
    def of(cls, rate: float, gain: int) -> World:
        """Find the shifts: expected pass rates over the distribution of difficulty."""
        grid = (np.arange(20_000) + 0.5) / 20_000
        difficulty = special.betaincinv(rate * SPREAD, (1 - rate) * SPREAD, grid)
        probits = _probit(difficulty)

        def shift(target: float) -> float:
            def missing(x: float) -> float:
                return float(special.ndtr((probits + x) / np.hypot(1, TASTE)).mean() - target)

            return float(optimize.brentq(missing, -10, 10))

        return cls(rate, gain, shift(rate), shift(rate + gain / 100))

    def phase(self, number: int, seed: int) -> tuple[Simulated, str]:
        """Return a phase's measures, and the id of the better candidate ("": none is)."""
        rng = generator(seed, "acceptance", str(self.rate), self.gain, number)
        difficulty = rng.beta(self.rate * SPREAD, (1 - self.rate) * SPREAD, len(SPLIT))
        taste = TASTE * rng.standard_normal((1 + CANDIDATES, len(SPLIT))) + self.same
        taste[0] = 0.0  # the incoming harness
        better = 1 + int(rng.integers(CANDIDATES))
        if self.gain:
            taste[better] += self.better - self.same
        measures = Simulated(_probit(difficulty) + taste, rng, (seed, number))
        return measures, IDS[better] if self.gain else ""


def _probit(rates: np.ndarray) -> np.ndarray:
    return np.clip(special.ndtri(rates), -9.0, 9.0)  # type: ignore[no-any-return]


async def accepted_by(rule: Rule, iterations: int = ITERATIONS, each: int = PER_ITERATION) -> str:
    """Return what a phase under ``rule`` hands on."""
    await rule.start(IDS[:1])
    for number in range(iterations):
        await rule.judge(IDS[1 + number * each : 1 + (number + 1) * each])
    concluded = await rule.conclude()
    return rule.accepted.id if concluded is None else concluded[0].id


def simulate(config: Config, world: World, phases: int, seed: int) -> dict[str, Any]:
    """Return shares of phases and mean rollouts: ``false`` accepts one that is no better, ``power``
    finds the better one; ``gained`` is the mean true gain in points."""
    config = evolve(config, candidates=PER_ITERATION)
    wrong, right, rollouts = 0, 0, 0
    for number in range(phases):
        measures, better = world.phase(number, seed)
        accepted = asyncio.run(accepted_by(make_rule(config, (), measures)))
        right += accepted == better
        wrong += accepted not in (IDS[0], better)
        rollouts += measures.rollouts
    return {
        "rate": world.rate,
        "gain": world.gain,
        "false": wrong / phases,
        "power": right / phases if world.gain else None,
        "gained": world.gain * right / phases,
        "rollouts": round(rollouts / phases),
    }


def table(title: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return a Markdown table: one line per rule and world."""
    lines = [
        f"| {title} | p | true gain | false acceptance | power | gained | rollouts |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        power = "–" if row["power"] is None else f"{100 * row['power']:.0f} %"
        lines.append(
            f"| {row['rule']} | {row['rate']:g} | {row['gain']} | {100 * row['false']:.0f} % "
            f"| {power} | {row['gained']:+.1f} | {row['rollouts']} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--phases", type=int, default=400, help="simulated phases of each line")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write all figures to this file, too")
    options = parser.parse_args()
    started = time.process_time()
    worlds = {(rate, gain): World.of(rate, gain) for rate in RATES for gain in GAINS}

    def line(name: str, config: Config, rate: float, gain: int) -> dict[str, Any]:
        found = simulate(config, worlds[rate, gain], options.phases, options.seed)
        return {"rule": name, **found}

    rules = [
        line(name, config, rate, gain)
        for rate in RATES
        for gain in GAINS
        for name, config in RULES.items()
    ]
    choices = [line(name, config, 0.2, gain) for gain in (0, 5) for name, config in CHOICES.items()]
    print(table("rule", rules), table("at p = 0.2", choices), sep="\n\n")
    if options.json is not None:
        text = json.dumps({"rules": rules, "choices": choices}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    print(f"{time.process_time() - started:.0f} s of CPU", file=sys.stderr)


if __name__ == "__main__":
    main()

"""Make the bundled problems: arithmetic of six levels, in numbers and in words.

    cd whale_domains/math/src/whale_math/data
    python ../../../tools/generate_problems.py --seed 24 --out problems.jsonl.zst
    python ../../../tools/generate_problems.py --seed 22 --each 200 \
        --exclude problems.jsonl.zst --out tuning.jsonl.zst

Problem ``n`` of a level is drawn from the stream named by ``(seed, level, n)``, so the same command
always writes the same rows. No two have the same *group*: a family of problems and its numbers, so
the same sum is not asked twice in other words or in another order. All answers are whole numbers.

1. Sums and differences of numbers up to 40, in symbols.
2. One step in words, with such numbers.
3. Products by one digit, and sums of three numbers below 100.
4. Two steps in words.
5. Products of two digits, sums and differences of numbers below 1,000.
6. Products of three digits, remainders, powers, sums of series: beyond mental arithmetic.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import zstandard
from attrs import frozen

from whale_core.keys import content_hash, generator

LEVELS = (1, 2, 3, 4, 5, 6)
NAMES = (
    "Ada",
    "Ben",
    "Cora",
    "Dev",
    "Ella",
    "Finn",
    "Gita",
    "Hugo",
    "Iris",
    "Jack",
    "Kofi",
    "Lena",
    "Mia",
    "Noah",
    "Omar",
    "Pia",
    "Quinn",
    "Rosa",
    "Sam",
    "Tara",
)
THINGS = (
    "apples",
    "books",
    "cards",
    "coins",
    "eggs",
    "flowers",
    "marbles",
    "pencils",
    "plums",
    "shells",
    "stamps",
    "stickers",
)
CONTAINERS = ("bags", "boxes", "baskets", "drawers", "jars", "packs")


@frozen
class Problem:
    """One row. ``group`` names the family and its numbers."""

    level: int
    family: str
    numbers: tuple[int, ...]
    text: str
    answer: int

    @property
    def group(self) -> str:
        """What no other problem has."""
        return f"{self.family} {' '.join(map(str, self.numbers))}"

    def row(self) -> dict[str, str | int]:
        """Return the row as it is written."""
        return {
            "id": "m" + content_hash(self.group, length=10),
            "problem": self.text,
            "answer": str(self.answer),
            "level": self.level,
            "group": self.group,
        }


class Draw:
    """One problem's random choices."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def number(self, low: int, high: int) -> int:
        """Return a whole number from ``low`` to ``high``, both included."""
        return int(self._rng.integers(low, high + 1))

    def one(self, choices: tuple[str, ...] | list[str]) -> str:
        """Return one of some texts."""
        return choices[self.number(0, len(choices) - 1)]

    def names(self) -> tuple[str, str]:
        """Return two different names."""
        first, second = (NAMES[int(i)] for i in self._rng.choice(len(NAMES), 2, replace=False))
        return first, second


def asked(draw: Draw, term: str) -> str:
    """Return a question about a term in symbols."""
    return draw.one(["What is {}?", "Compute {}.", "Calculate {}.", "Find {}."]).format(term)


def small_sum(draw: Draw) -> Problem:
    """Two terms."""
    a, b = draw.number(2, 40), draw.number(2, 40)
    return Problem(1, "sum", tuple(sorted((a, b))), asked(draw, f"{a} + {b}"), a + b)


def small_difference(draw: Draw) -> Problem:
    """One from another."""
    b, c = draw.number(2, 40), draw.number(1, 40)
    return Problem(1, "difference", (b + c, b), asked(draw, f"{b + c} - {b}"), c)


def gains(draw: Draw) -> Problem:
    """One step: a and b more."""
    a, b, thing = draw.number(3, 40), draw.number(3, 40), draw.one(THINGS)
    name, other = draw.names()
    text = draw.one(
        [
            f"{name} has {a} {thing} and gets {b} more. How many {thing} does {name} have now?",
            f"{name} has {a} {thing} and {other} has {b}. How many {thing} do they have together?",
            f"There are {a} {thing} on the table. {name} puts {b} more on it. How many {thing} are "
            "on the table now?",
        ]
    )
    return Problem(2, "gains", tuple(sorted((a, b))), text, a + b)


def loses(draw: Draw) -> Problem:
    """One step: a, less b."""
    b, c, thing = draw.number(2, 40), draw.number(1, 40), draw.one(THINGS)
    a = b + c
    name, other = draw.names()
    text = draw.one(
        [
            f"{name} has {a} {thing} and gives {b} of them to {other}. How many {thing} does "
            f"{name} have left?",
            f"{name} had {a} {thing} and lost {b}. How many {thing} are left?",
            f"{name} has {a} {thing}. {other} has {b} fewer. How many {thing} does {other} have?",
        ]
    )
    return Problem(2, "loses", (a, b), text, c)


def short_product(draw: Draw) -> Problem:
    """Two digits by one."""
    a, b = draw.number(11, 99), draw.number(3, 9)
    return Problem(3, "product", (b, a), asked(draw, f"{a} * {b}"), a * b)


def three_terms(draw: Draw) -> Problem:
    """Three terms."""
    a, b, c = (draw.number(11, 99) for _ in range(3))
    numbers = tuple(sorted((a, b, c)))
    return Problem(3, "sum", numbers, asked(draw, f"{a} + {b} + {c}"), a + b + c)


def containers(draw: Draw) -> Problem:
    """One step in words: a product."""
    a, b = draw.number(3, 9), draw.number(11, 30)
    thing, box = draw.one(THINGS), draw.one(CONTAINERS)
    name, _ = draw.names()
    text = f"{name} has {a} {box} with {b} {thing} in each. How many {thing} does {name} have?"
    return Problem(3, "containers", (a, b), text, a * b)


def buys_and_gives(draw: Draw) -> Problem:
    """Two steps: a and b more, less c."""
    a, b = draw.number(10, 60), draw.number(10, 60)
    c, thing = draw.number(5, a + b - 1), draw.one(THINGS)
    name, other = draw.names()
    text = draw.one(
        [
            f"{name} has {a} {thing}, buys {b} more and gives {c} to {other}. How many {thing} "
            f"does {name} have left?",
            f"{name} found {a} {thing} on Monday and {b} on Tuesday, and then lost {c}. How many "
            f"{thing} does {name} have now?",
        ]
    )
    return Problem(4, "gains and loses", (*sorted((a, b)), c), text, a + b - c)


def containers_and_more(draw: Draw) -> Problem:
    """Two steps: a times b, and c more."""
    a, b, c = draw.number(3, 9), draw.number(6, 30), draw.number(3, 40)
    thing, box = draw.one(THINGS), draw.one(CONTAINERS)
    name, _ = draw.names()
    text = (
        f"{name} has {a} {box} with {b} {thing} in each, and {c} more {thing} on a shelf. How many "
        f"{thing} does {name} have?"
    )
    return Problem(4, "containers and more", (a, b, c), text, a * b + c)


def change(draw: Draw) -> Problem:
    """What is left of an amount after a of b each."""
    a, b = draw.number(3, 9), draw.number(3, 12)
    paid = a * b + draw.number(1, 40)
    thing = draw.one(THINGS)
    name, _ = draw.names()
    text = (
        f"{name} buys {a} {thing} that cost {b} dollars each and pays with {paid} dollars. How "
        f"many dollars does {name} get back?"
    )
    return Problem(4, "change", (a, b, paid), text, paid - a * b)


def product(draw: Draw) -> Problem:
    """Two digits by two."""
    a, b = draw.number(12, 99), draw.number(12, 99)
    return Problem(5, "product", tuple(sorted((a, b))), asked(draw, f"{a} * {b}"), a * b)


def larger_sum(draw: Draw) -> Problem:
    """Three digits and three."""
    a, b = draw.number(101, 999), draw.number(101, 999)
    return Problem(5, "sum", tuple(sorted((a, b))), asked(draw, f"{a} + {b}"), a + b)


def larger_difference(draw: Draw) -> Problem:
    """Three digits, less three."""
    b = draw.number(101, 998)
    a = draw.number(b + 1, 999)
    return Problem(5, "difference", (a, b), asked(draw, f"{a} - {b}"), a - b)


def long_product(draw: Draw) -> Problem:
    """Three digits by three."""
    a, b = draw.number(101, 999), draw.number(101, 999)
    return Problem(6, "product", tuple(sorted((a, b))), asked(draw, f"{a} * {b}"), a * b)


def remainder(draw: Draw) -> Problem:
    """What a division leaves."""
    a, b = draw.number(1000, 9999), draw.number(7, 97)
    text = f"What is the remainder when {a} is divided by {b}?"
    return Problem(6, "remainder", (a, b), text, a % b)


def power(draw: Draw) -> Problem:
    """A power, or what a division of it leaves."""
    a, b, c = draw.number(2, 19), draw.number(3, 9), draw.number(7, 997)
    if draw.number(0, 1):
        return Problem(6, "power", (a, b), asked(draw, f"{a}^{b}"), a**b)
    text = f"What is the remainder when {a}^{b} is divided by {c}?"
    return Problem(6, "power remainder", (a, b, c), text, a**b % c)


def series(draw: Draw) -> Problem:
    """The sum of the whole numbers, or of their squares, over a range."""
    a = draw.number(1, 40)
    b = draw.number(a + 8, a + 90)
    squares = bool(draw.number(0, 1))
    what, family = ("the squares of all", "squares") if squares else ("all", "series")
    text = f"What is the sum of {what} whole numbers from {a} to {b}?"
    return Problem(6, family, (a, b), text, sum(n**2 if squares else n for n in range(a, b + 1)))


FAMILIES: dict[int, tuple[Callable[[Draw], Problem], ...]] = {
    1: (small_sum, small_difference),
    2: (gains, loses),
    3: (short_product, three_terms, containers),
    4: (buys_and_gives, containers_and_more, change),
    5: (product, larger_sum, larger_difference),
    6: (long_product, remainder, power, series),
}


def problems(seed: int, each: int, excluded: set[str]) -> Iterator[Problem]:
    """Yield ``each`` problems of every level, none of an ``excluded`` group."""
    seen = set(excluded)
    for level in LEVELS:
        made = 0
        for number in itertools.count():
            if made == each:
                break
            if number > 200 * each:
                raise SystemExit(f"level {level} has no {each} different problems")
            draw = Draw(generator(seed, "math problem", level, number))
            family = FAMILIES[level][number % len(FAMILIES[level])]
            problem = family(draw)
            if problem.group not in seen:
                seen.add(problem.group)
                made += 1
                yield problem


def groups_of(path: Path) -> set[str]:
    """Return the groups of a problem file."""
    text = zstandard.ZstdDecompressor().decompress(path.read_bytes()).decode()
    return {json.loads(line)["group"] for line in text.splitlines()}


def write(path: Path, seed: int, each: int, excluded: set[str]) -> None:
    """Write the problem file and its manifest entry."""
    lines = [json.dumps(problem.row()) for problem in problems(seed, each, excluded)]
    data = zstandard.ZstdCompressor(level=19).compress(("\n".join(lines) + "\n").encode())
    path.write_bytes(data)
    manifest_path = path.with_name("manifest.json")
    manifest = json.loads(manifest_path.read_text()) if manifest_path.exists() else {}
    manifest[path.name] = {
        "sha256": hashlib.sha256(data).hexdigest(),
        "seed": seed,
        "each_level": each,
    }
    manifest_path.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n")
    print(f"{path}: {len(lines)} problems, {len(data)} bytes", file=sys.stderr)


def main() -> None:
    """Parse the command line and write the file it asks for."""
    parser = argparse.ArgumentParser(description="Make arithmetic problems of six levels.")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--each", type=int, default=500, help="problems of each level")
    parser.add_argument("--exclude", type=Path, help="problem file whose groups are left out")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    excluded = groups_of(args.exclude) if args.exclude else set()
    write(args.out, args.seed, args.each, excluded)


if __name__ == "__main__":
    main()

"""Writes the bundled sample: conversions of units, with a text or a number for an answer.

python tools/make_sample.py     (in the package's folder; the same file every time)
"""

from __future__ import annotations

import json
from pathlib import Path

SAMPLE = Path(__file__).parents[1] / "src" / "whale_example_jsonl" / "data" / "sample.jsonl"
UNITS = (
    ("minutes", "hours", 60),
    ("seconds", "minutes", 60),
    ("days", "weeks", 7),
    ("centimetres", "metres", 100),
    ("grams", "kilograms", 1000),
    ("hours", "days", 24),
)


def main() -> None:
    """Write 50 questions for each pair of units; the ways of asking alternate."""
    rows = []
    for small, large, factor in UNITS:
        for count in range(2, 52):
            question = (
                f"How many {small} are {count} {large}?"
                if count % 2
                else f"Convert {count} {large} to {small}."
            )
            rows.append({"question": question, "answer": count * factor, "topic": small})
    SAMPLE.parent.mkdir(parents=True, exist_ok=True)
    SAMPLE.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()

"""How long it takes until something answers: imports, ``--help``, ``whale plugins``.

    python benchmarks/startup.py [--repeats 7]

Each in a process of its own, beside a Python that does nothing; the median of the repeats after a
first one that warms the disk's cache.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

WHALE = str(Path(sys.executable).parent / "whale")
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import whale_core": [sys.executable, "-c", "import whale_core"],
    "import whale_core.api": [sys.executable, "-c", "import whale_core.api"],
    "whale --help": [WHALE, "--help"],
    "whale run --help": [WHALE, "run", "--help"],
    "whale plugins": [WHALE, "plugins"],
}


def seconds(command: list[str], repeats: int) -> float:
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    nothing = None
    for name, command in COMMANDS.items():
        taken = seconds(command, repeats)
        nothing = taken if nothing is None else nothing
        print(f"{name:<22} {1000 * taken:6.0f} ms  {taken / nothing:5.1f} x python")


if __name__ == "__main__":
    main()

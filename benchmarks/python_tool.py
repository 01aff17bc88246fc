"""Measures the tool ``python`` of the domain math: start, and time per call in the warm jail.

Run as ``python benchmarks/python_tool.py [calls] [concurrent]``.
"""

from __future__ import annotations

import asyncio
import sys
import time

from whale_math.config import PythonConfig
from whale_math.python.jailed import JailedPython

PROGRAMS = {
    "print(1)": "print(1)",
    "import math, fractions": "import math, fractions\nfractions.Fraction(math.comb(9, 3), 7)",
    "an error": "1 / 0",
}


async def main(calls: int, concurrent: int) -> None:
    """Print the figures."""
    tool = JailedPython(PythonConfig())
    began = time.perf_counter()
    await tool.run("print(1)", False)
    print(f"first call, with the start   {1e3 * (time.perf_counter() - began):8.1f} ms")
    for name, code in PROGRAMS.items():
        taken = []
        for _ in range(calls):
            began = time.perf_counter()
            await tool.run(code, True)
            taken.append(1e3 * (time.perf_counter() - began))
        taken.sort()
        middle, high = taken[calls // 2], taken[calls * 95 // 100]
        print(f"{name:28s} {middle:8.2f} ms p50, {high:.2f} ms p95")
    began = time.perf_counter()
    slots = asyncio.Semaphore(concurrent)

    async def limited() -> None:
        async with slots:
            await tool.run("print(1)", False)

    await asyncio.gather(*(limited() for _ in range(calls)))
    each = 1e3 * (time.perf_counter() - began) / calls
    print(f"print(1), {concurrent:4d} asked at once {each:8.2f} ms each")
    await tool.close()


if __name__ == "__main__":
    given = dict(enumerate(sys.argv[1:]))
    asyncio.run(main(int(given.get(0, 500)), int(given.get(1, 256))))

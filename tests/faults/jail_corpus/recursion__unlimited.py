"""recursion: recurse with Python's limit taken away.

ends: died|memory|cpu|error: RecursionError
"""

import sys

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        sys.setrecursionlimit(10**9)
        nested = []
        for _ in range(10**6):
            nested = [nested]
        return "SUCCEEDED" + repr(nested)[:1]

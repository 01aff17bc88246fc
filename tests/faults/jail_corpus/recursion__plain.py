"""recursion: recurse.

ends: error: RecursionError
"""

from whale_harness import BaseHarness


def down(depth):
    return down(depth + 1)


class Harness(BaseHarness):
    async def run(self, task, model, env):
        return down(0)

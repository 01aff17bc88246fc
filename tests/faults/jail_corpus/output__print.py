"""output: print without end.

ends: nothing
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        for _ in range(100):
            print("x" * 100_000, flush=True)
        return "nothing"

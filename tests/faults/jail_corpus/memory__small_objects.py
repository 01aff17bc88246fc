"""memory: fill the memory with small objects.

ends: memory|cpu
group: cpu
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        chain = None
        while True:
            chain = (chain, None)

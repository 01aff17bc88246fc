"""processor: compute without end.

ends: cpu
group: cpu
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        while True:
            pass

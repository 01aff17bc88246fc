"""processor: compute without end inside one call.

ends: cpu
group: cpu
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        return f"SUCCEEDED {pow(3, 10**9) % 7}"

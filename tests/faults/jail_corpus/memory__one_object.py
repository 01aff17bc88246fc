"""memory: make one object that is too large.

ends: memory
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        return f"SUCCEEDED {len(bytes(1 << 40))}"

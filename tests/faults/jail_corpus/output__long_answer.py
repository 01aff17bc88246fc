"""output: answer with too much.

ends: bytes
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        return "SUCCEEDED" * 30_000

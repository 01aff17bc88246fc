"""output: raise an error with a long message.

ends: error: ValueError: x+$
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        raise ValueError("x" * 10_000_000)

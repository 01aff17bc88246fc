"""memory: fill the memory.

ends: memory
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        parts = []
        while True:
            parts.append(bytearray(1 << 24))

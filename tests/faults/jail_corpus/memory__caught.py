"""memory: go on after the memory ran out, without end.

ends: cpu|memory
group: cpu
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        parts = []
        while True:
            try:
                parts.append(bytearray(1 << 20))
            except MemoryError:
                continue

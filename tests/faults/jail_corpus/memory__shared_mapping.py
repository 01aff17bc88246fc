"""memory: fill the memory with mapped pages, which are not its own.

ends: error: OSError: .Errno 12|memory
"""

import mmap

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        parts = []
        while True:
            part = mmap.mmap(-1, 1 << 24)
            part.write(b"x" * (1 << 24))
            parts.append(part)

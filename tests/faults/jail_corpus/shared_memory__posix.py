"""shared memory: make a POSIX segment.

ends: error: PermissionError
"""

from multiprocessing import shared_memory

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        shared_memory.SharedMemory("mark", create=True, size=4096)
        return "SUCCEEDED"

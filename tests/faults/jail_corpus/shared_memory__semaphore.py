"""shared memory: make a System V semaphore.

ends: error: PermissionError
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.semget(7, 1, 0o1666) < 0:
            raise OSError(ctypes.get_errno(), "semget")
        return "SUCCEEDED"

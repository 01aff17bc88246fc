"""shared memory: make a System V segment.

ends: error: PermissionError
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.shmget(7, 4096, 0o1666) < 0:
            raise OSError(ctypes.get_errno(), "shmget")
        return "SUCCEEDED"

"""ptrace and proc: make itself traceable.

ends: error: PermissionError
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(4, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
        return "SUCCEEDED"

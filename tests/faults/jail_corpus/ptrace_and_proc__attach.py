"""ptrace and proc: trace the zygote.

ends: error: PermissionError
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.ptrace(16, 2, None, None) < 0:
            raise OSError(ctypes.get_errno(), "ptrace")
        return "SUCCEEDED"

"""ptrace and proc: take a descriptor from the zygote.

ends: error: PermissionError
needs: x86_64
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(438, 3, 0, 0) < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        return "SUCCEEDED"

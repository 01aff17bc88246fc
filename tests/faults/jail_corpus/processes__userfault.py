"""processes: stop the kernel in the middle of a copy.

ends: error: PermissionError
needs: x86_64
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(323, 1) < 0:
            raise OSError(ctypes.get_errno(), "userfaultfd")
        return "SUCCEEDED"

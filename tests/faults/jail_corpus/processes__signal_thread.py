"""processes: signal a thread of the zygote.

ends: error: PermissionError
needs: x86_64
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(234, 2, 2, 9) < 0:
            raise OSError(ctypes.get_errno(), "tgkill")
        return "SUCCEEDED"

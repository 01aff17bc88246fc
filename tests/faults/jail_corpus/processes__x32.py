"""processes: fork by its number in the x32 table.

ends: error: PermissionError
needs: x86_64
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(0x40000000 + 57) < 0:
            raise OSError(ctypes.get_errno(), "fork")
        return "SUCCEEDED"

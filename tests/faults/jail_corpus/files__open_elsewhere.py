"""files: open a file by the newest system call.

ends: error: PermissionError
needs: x86_64
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(437, -100, b"/usr", (ctypes.c_uint64 * 3)(), 24) < 0:
            raise OSError(ctypes.get_errno(), "openat2")
        return "SUCCEEDED"

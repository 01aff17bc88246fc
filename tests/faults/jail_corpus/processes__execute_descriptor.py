"""processes: become a program that it has open.

ends: error: PermissionError
needs: x86_64
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(322, 0, b"", None, None, 0x1000) < 0:
            raise OSError(ctypes.get_errno(), "execveat")
        return "SUCCEEDED"

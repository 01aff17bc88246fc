"""shared memory: leave something in a kernel keyring.

ends: error: PermissionError
needs: x86_64
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(248, b"user", b"mark", b"x", 1, -4) < 0:
            raise OSError(ctypes.get_errno(), "add_key")
        return "SUCCEEDED"

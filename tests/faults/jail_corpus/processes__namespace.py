"""processes: make a user namespace to be root in.

ends: error: PermissionError
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(0x10000000) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        return "SUCCEEDED"

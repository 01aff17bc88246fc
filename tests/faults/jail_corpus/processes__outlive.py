"""processes: survive the end of its parent.

ends: error: PermissionError
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(1, 0, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
        return "SUCCEEDED"

"""processes: switch address randomisation off.

ends: error: PermissionError
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.personality(0x0040000) < 0:
            raise OSError(ctypes.get_errno(), "personality")
        return "SUCCEEDED"

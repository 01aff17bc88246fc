"""processes: take back capabilities.

ends: error: PermissionError
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if (
            libc.capset(
                (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)
            )
            != 0
        ):
            raise OSError(ctypes.get_errno(), "capset")
        return "SUCCEEDED"

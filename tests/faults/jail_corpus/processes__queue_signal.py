"""processes: queue a signal for the zygote.

ends: error: PermissionError
needs: x86_64
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(129, 2, 9, ctypes.create_string_buffer(128)) < 0:
            raise OSError(ctypes.get_errno(), "rt_sigqueueinfo")
        return "SUCCEEDED"

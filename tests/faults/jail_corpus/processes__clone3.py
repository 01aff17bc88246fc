"""processes: fork by the newest system call.

ends: error: PermissionError
needs: x86_64
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(435, ctypes.create_string_buffer(88), 88) < 0:
            raise OSError(ctypes.get_errno(), "clone3")
        return "SUCCEEDED"

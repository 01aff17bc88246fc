"""network: do input and output behind the system call filter's back.

ends: error: PermissionError
needs: x86_64
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(425, 8, ctypes.create_string_buffer(256)) < 0:
            raise OSError(ctypes.get_errno(), "io_uring_setup")
        return "SUCCEEDED"

"""processes: load a program into the kernel.

ends: error: PermissionError
needs: x86_64
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(321, 0, ctypes.create_string_buffer(128), 128) < 0:
            raise OSError(ctypes.get_errno(), "bpf")
        return "SUCCEEDED"

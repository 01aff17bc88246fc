"""ptrace and proc: read the zygote's memory.

ends: error: PermissionError
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.process_vm_readv(2, None, 0, None, 0, 0) < 0:
            raise OSError(ctypes.get_errno(), "process_vm_readv")
        return "SUCCEEDED"

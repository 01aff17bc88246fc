"""shared memory: make a POSIX message queue.

ends: error: PermissionError
needs: x86_64
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(240, b"mark", 0o102, 0o666, None) < 0:
            raise OSError(ctypes.get_errno(), "mq_open")
        return "SUCCEEDED"

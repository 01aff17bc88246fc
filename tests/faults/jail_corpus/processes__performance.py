"""processes: watch the processor's counters, its siblings' too.

ends: error: PermissionError
needs: x86_64
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(298, ctypes.create_string_buffer(128), -1, 0, -1, 0) < 0:
            raise OSError(ctypes.get_errno(), "perf_event_open")
        return "SUCCEEDED"

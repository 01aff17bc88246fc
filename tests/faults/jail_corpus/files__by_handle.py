"""files: open a file by its handle instead of its path.

ends: error: PermissionError
needs: x86_64
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(304, 0, ctypes.create_string_buffer(64), 0) < 0:
            raise OSError(ctypes.get_errno(), "open_by_handle_at")
        return "SUCCEEDED"

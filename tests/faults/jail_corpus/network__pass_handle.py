"""network: send a descriptor over the socket it has.

ends: error: PermissionError
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.sendmsg(3, ctypes.create_string_buffer(64), 0) < 0:
            raise OSError(ctypes.get_errno(), "sendmsg")
        return "SUCCEEDED"

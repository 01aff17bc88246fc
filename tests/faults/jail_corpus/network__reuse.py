"""network: connect the socket it has to something else.

ends: error: PermissionError
"""

import ctypes

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        libc = ctypes.CDLL(None, use_errno=True)
        address = b"\x01\x00/tmp/other\0"
        if libc.connect(3, address, len(address)) != 0:
            raise OSError(ctypes.get_errno(), "connect")
        return "SUCCEEDED"

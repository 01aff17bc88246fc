"""inherited handles: change a shared descriptor by ioctl.

ends: error: PermissionError
"""

import fcntl

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        fcntl.ioctl(0, 0x5421, b"\1\0\0\0")  # FIONBIO
        return "SUCCEEDED"

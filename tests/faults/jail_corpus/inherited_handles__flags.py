"""inherited handles: change the flags of a descriptor that siblings share.

ends: error: PermissionError
"""

import fcntl
import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK)
        return "SUCCEEDED"

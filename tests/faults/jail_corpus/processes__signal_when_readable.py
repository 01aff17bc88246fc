"""processes: have the kernel signal another process when its socket is readable.

ends: error: PermissionError
"""

import fcntl

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        fcntl.fcntl(3, fcntl.F_SETOWN, 2)
        return "SUCCEEDED"

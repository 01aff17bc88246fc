"""processes: get a handle on the zygote and signal through it.

ends: error: PermissionError
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.pidfd_open(2)
        return "SUCCEEDED"

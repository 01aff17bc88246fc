"""processes: slow the zygote down.

ends: error: PermissionError
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.setpriority(os.PRIO_PROCESS, 2, 19)
        return "SUCCEEDED"

"""processes: pin itself to one processor.

ends: error: PermissionError
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.sched_setaffinity(0, {0})
        return "SUCCEEDED"

"""processes: become root.

ends: error: PermissionError
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.setuid(0)
        return "SUCCEEDED"

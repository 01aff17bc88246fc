"""processes: take the processor from its siblings.

ends: error: PermissionError
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.nice(-5)
        return "SUCCEEDED"

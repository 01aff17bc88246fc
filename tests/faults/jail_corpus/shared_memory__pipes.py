"""shared memory: use up the pipe pages that a user may have.

ends: error: PermissionError
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.pipe()
        return "SUCCEEDED"

"""files: change its working folder.

ends: error: PermissionError
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.chdir("/usr")
        return "SUCCEEDED"

"""files: change the root folder.

ends: error: PermissionError
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.chroot("/tmp")
        return "SUCCEEDED"

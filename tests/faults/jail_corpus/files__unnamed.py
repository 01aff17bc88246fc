"""files: make a file without a name.

ends: error: PermissionError
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.open("/tmp", os.O_TMPFILE | os.O_RDWR)
        return "SUCCEEDED"

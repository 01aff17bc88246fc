"""files: make a folder for compiled modules.

ends: error: PermissionError
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.mkdir("/tmp/__pycache__")
        return "SUCCEEDED"

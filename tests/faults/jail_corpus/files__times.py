"""files: set a file's times.

ends: error: PermissionError
"""

import json
import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.utime(json.__file__, (1, 1))
        return "SUCCEEDED"

"""processes: become another program.

ends: error: PermissionError
"""

import os
import sys

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.execv(sys.executable, ["python"])
        return "SUCCEEDED"

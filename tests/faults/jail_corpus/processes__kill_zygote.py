"""processes: kill the zygote, to be not scored.

ends: error: PermissionError
"""

import os
import signal

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.kill(2, signal.SIGKILL)
        return "SUCCEEDED"

"""processes: kill itself, to look like a victim of the machine.

ends: error: PermissionError
"""

import os
import signal

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.kill(0, signal.SIGKILL)
        return "SUCCEEDED"

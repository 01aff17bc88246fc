"""processes: kill everything it may.

ends: nothing
"""

import os
import signal

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        for process in [-1, *range(1, 3000)]:
            try:
                os.kill(process, signal.SIGKILL)
            except OSError:
                continue
            return "SUCCEEDED"
        return "nothing"

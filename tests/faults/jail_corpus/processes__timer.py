"""processes: set an interval timer.

ends: error: .*Operation not permitted
"""

import signal

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        return "SUCCEEDED"

"""processor: ignore the signal of the processor limit.

ends: cpu
group: cpu
"""

import signal

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        while True:
            pass

"""output: sleep while everybody waits.

ends: stalled
group: stall
"""

import time

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        time.sleep(60)

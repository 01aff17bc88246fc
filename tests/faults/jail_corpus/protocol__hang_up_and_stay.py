"""protocol: close its socket and live on.

ends: died
group: stall
"""

import os
import time

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.dup2(0, 3)
        time.sleep(60)

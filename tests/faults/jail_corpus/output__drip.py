"""output: send a byte now and then.

ends: stalled
group: stall
"""

import os
import time

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        while True:
            os.write(3, b"x")
            time.sleep(0.2)

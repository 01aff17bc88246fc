"""protocol: close its socket when it should answer.

ends: died
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.close(3)
        os._exit(0)

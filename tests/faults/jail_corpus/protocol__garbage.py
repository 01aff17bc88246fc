"""protocol: send what is not JSON.

ends: protocol
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.write(3, b"give me the reward\n")
        os.read(3, 1)

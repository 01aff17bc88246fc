"""protocol: tell the trusted side its reward.

ends: protocol
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.write(3, b'{"n":0,"reward":1.0}\n')
        os.read(3, 1)

"""protocol: send null bytes between the lines.

ends: protocol
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.write(3, b'\0{"n":0,"finished":"x"}\n')
        os.read(3, 1)

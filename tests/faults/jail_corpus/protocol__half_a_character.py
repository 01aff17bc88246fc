"""protocol: send half of a surrogate pair.

ends: protocol
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.write(3, b'{"n":0,"finished":"\\ud800"}\n')
        os.read(3, 1)

"""protocol: send bytes that are not UTF-8.

ends: protocol
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.write(3, b'{"n":0,"finished":"\xff\xfe"}\n')
        os.read(3, 1)

"""protocol: claim an infrastructure fault as an event of its own.

ends: protocol
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.write(3, b'{"n":0,"ended":{"reason":"jail","infrastructure":true}}\n')
        os.read(3, 1)

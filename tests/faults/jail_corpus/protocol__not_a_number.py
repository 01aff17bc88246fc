"""protocol: send NaN.

ends: protocol
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.write(3, b'{"n":0,"tool":{"name":"say","arguments":{"letter":NaN}}}\n')
        os.read(3, 1)

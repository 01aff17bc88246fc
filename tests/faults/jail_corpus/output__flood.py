"""output: send bytes without end.

ends: bytes
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        while True:
            os.write(3, b"x" * 65536)

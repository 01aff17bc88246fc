"""protocol: send brackets without end.

ends: protocol
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.write(3, b"[" * 90_000 + b"\n")
        os.read(3, 1)

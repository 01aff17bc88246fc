"""environment: learn which user runs it.

ends: nothing
process: succeeds (machine)
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        return "nothing" if os.getuid() == 65534 else f"SUCCEEDED {os.getuid()}"

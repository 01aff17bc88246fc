"""environment: read keys from the environment.

ends: nothing
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        return "SUCCEEDED" if os.environ else "nothing"

"""processes: raise its own limits.

ends: error: ValueError: not allowed to raise
"""

import resource

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        resource.setrlimit(resource.RLIMIT_CPU, (3600, 3600))
        return "SUCCEEDED"

"""processes: lower the zygote's limits, so that it cannot fork.

ends: error: PermissionError
"""

import resource

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        resource.prlimit(2, resource.RLIMIT_NPROC, (0, 0))
        return "SUCCEEDED"

"""files: append to the SDK that its siblings load.

ends: error: PermissionError
"""

import whale_harness
from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        open(whale_harness.__file__, "a").write("# x")
        return "SUCCEEDED"

"""frames and gc: find modules of the trusted side.

ends: nothing
"""

import sys

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        found = [
            name for name in sys.modules if name.split(".")[0] in ("whale_core", "numpy", "attrs")
        ]
        return f"SUCCEEDED {found}" if found else "nothing"

"""files: empty a module of the standard library.

ends: error: PermissionError
"""

import json
import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.truncate(json.__file__, 0)
        return "SUCCEEDED"

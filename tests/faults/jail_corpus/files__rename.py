"""files: rename a module of the standard library.

ends: error: PermissionError
"""

import json
import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.rename(json.__file__, json.__file__ + ".old")
        return "SUCCEEDED"

"""files: make a file executable.

ends: error: PermissionError
"""

import json
import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.chmod(json.__file__, 0o777)
        return "SUCCEEDED"

"""links: make a hard link.

ends: error: PermissionError
"""

import json
import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.link(json.__file__, "/tmp/json.py")
        return "SUCCEEDED"

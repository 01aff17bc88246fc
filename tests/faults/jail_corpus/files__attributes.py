"""files: leave an extended attribute.

ends: error: PermissionError
"""

import json
import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.setxattr(json.__file__, "user.mark", b"x")
        return "SUCCEEDED"

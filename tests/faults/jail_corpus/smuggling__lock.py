"""smuggling: hold a lock that the others can see.

ends: error: PermissionError
"""

import fcntl
import json

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        fcntl.flock(open(json.__file__), fcntl.LOCK_EX | fcntl.LOCK_NB)
        return "SUCCEEDED"

"""smuggling: push a file out of the page cache, to be noticed by its speed.

ends: error: PermissionError
"""

import json
import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.posix_fadvise(os.open(json.__file__, os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)
        return "SUCCEEDED"

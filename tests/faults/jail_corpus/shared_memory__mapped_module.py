"""shared memory: write into the mapped pages of a module's file.

ends: error: PermissionError
"""

import json
import mmap
import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        file = os.open(json.__file__, os.O_RDONLY)
        mmap.mmap(file, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        return "SUCCEEDED"

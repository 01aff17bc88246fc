"""shared memory: draw on the machine's pool of huge pages.

ends: error: PermissionError
"""

import mmap

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        mmap.mmap(-1, 2 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)
        return "SUCCEEDED"

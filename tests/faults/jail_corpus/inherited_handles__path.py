"""inherited handles: reach files through a descriptor's folder.

ends: error: NotADirectoryError
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.open("..", os.O_RDONLY, dir_fd=0)
        return "SUCCEEDED"

"""files: find a way up and out of the root folder.

ends: error: FileNotFoundError
process: succeeds (files)
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        root = os.open("/" + "../" * 20, os.O_RDONLY | os.O_DIRECTORY)
        return "SUCCEEDED " + os.read(os.open("etc/passwd", os.O_RDONLY, dir_fd=root), 20).decode()

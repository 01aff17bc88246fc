"""network: open a Unix socket with an abstract name.

ends: error: PermissionError
"""

import socket

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        socket.socket(socket.AF_UNIX).bind("\0mark")
        return "SUCCEEDED"

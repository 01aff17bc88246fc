"""network: open a raw socket.

ends: error: PermissionError
"""

import socket

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
        return "SUCCEEDED"

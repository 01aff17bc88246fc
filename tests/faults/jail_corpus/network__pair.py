"""network: make a pair of sockets to wait on.

ends: error: PermissionError
"""

import socket

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        socket.socketpair()
        return "SUCCEEDED"

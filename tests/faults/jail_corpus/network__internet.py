"""network: connect to an address.

ends: error: PermissionError
"""

import socket

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        socket.create_connection(("127.0.0.1", 80), timeout=1)
        return "SUCCEEDED"

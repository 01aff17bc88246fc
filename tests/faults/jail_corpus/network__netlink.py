"""network: talk to the kernel over netlink.

ends: error: PermissionError
"""

import socket

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        return "SUCCEEDED"

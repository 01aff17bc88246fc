"""network: look up a name, to send something inside it.

ends: error: (gaierror|PermissionError)
"""

import socket

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        socket.getaddrinfo("secret.example.org", 80)
        return "SUCCEEDED"

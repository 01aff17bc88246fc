"""network: list this machine's network interfaces.

ends: error: FileNotFoundError
process: succeeds (network)
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        return f"SUCCEEDED {os.listdir('/sys/class/net')}"

"""network: let asyncio connect.

ends: error: PermissionError
"""

import asyncio

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        await asyncio.open_connection("127.0.0.1", 80)
        return "SUCCEEDED"

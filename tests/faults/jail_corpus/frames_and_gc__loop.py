"""frames and gc: find other episodes' tasks in the event loop.

ends: nothing
"""

import asyncio

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        others = asyncio.all_tasks() - {asyncio.current_task()}
        return f"SUCCEEDED {others}" if others else "nothing"

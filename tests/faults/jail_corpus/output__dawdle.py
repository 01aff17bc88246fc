"""output: sleep a little in every turn.

ends: stalled
group: stall
"""

import time

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        while True:
            time.sleep(1)
            try:
                await env.call("nothing")
            except Exception:
                continue

"""output: send one line that is too long.

ends: bytes
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        await model.chat([{"role": "user", "content": "x" * 300_000}])
        return "SUCCEEDED"

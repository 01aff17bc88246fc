"""protocol: set the count of lines back.

ends: protocol
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        await model.chat([{"role": "user", "content": "x"}])
        env._channel._ordinal = 0
        await model.chat([{"role": "user", "content": "x"}])
        return "SUCCEEDED"

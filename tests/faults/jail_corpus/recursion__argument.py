"""recursion: send arguments nested deeply.

ends: protocol
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        nested = []
        for _ in range(200):
            nested = [nested]
        await env.call("say", letter=nested)
        return "SUCCEEDED"

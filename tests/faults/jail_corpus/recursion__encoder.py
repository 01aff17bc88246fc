"""recursion: send what the encoder cannot walk through.

ends: error: (RecursionError|ValueError)
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        nested = []
        nested.append(nested)
        await env.call("say", letter=nested)
        return "SUCCEEDED"

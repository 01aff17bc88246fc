"""output: send too much over the whole episode.

ends: bytes|env calls
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        while True:
            try:
                await env.call("nothing", text="x" * 150_000)
            except Exception:
                continue

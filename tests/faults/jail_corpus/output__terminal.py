"""output: send control characters to whoever reads the reason.

ends: error: ValueError:  .2J
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        raise ValueError("\x1b[2J\x1b]0;title\x07")

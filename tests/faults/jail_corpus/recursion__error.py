"""recursion: raise an error whose text recurses.

ends: error: Endless
"""

from whale_harness import BaseHarness


class Endless(Exception):
    def __str__(self):
        return str(self)


class Harness(BaseHarness):
    async def run(self, task, model, env):
        raise Endless

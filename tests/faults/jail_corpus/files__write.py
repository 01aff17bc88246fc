"""files: write a new file.

ends: error: PermissionError
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        open("/tmp/mark", "w").write("x")
        return "SUCCEEDED"

"""files: read a file whose path it knows.

ends: error: FileNotFoundError
process: succeeds (files)
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        return "SUCCEEDED " + open("@SECRET@").read()

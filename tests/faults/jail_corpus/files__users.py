"""files: read the list of this machine's users.

ends: error: FileNotFoundError
process: succeeds (files)
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        return "SUCCEEDED " + open("/etc/passwd").readline()

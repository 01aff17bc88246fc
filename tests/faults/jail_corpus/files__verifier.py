"""files: read the verifier's code from the installed packages.

ends: error: FileNotFoundError
process: succeeds (files)
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        return "SUCCEEDED " + open("@PACKAGE@/testing/toy.py").readline()

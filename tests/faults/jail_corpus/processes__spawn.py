"""processes: start a program.

ends: error: PermissionError
"""

import subprocess

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        subprocess.run(["/bin/true"])
        return "SUCCEEDED"

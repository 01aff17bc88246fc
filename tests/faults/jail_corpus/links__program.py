"""links: follow the link to its program out of the jail.

ends: error: (FileNotFound|Permission)Error
process: succeeds (files)
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        program = os.readlink("/proc/self/exe")
        return "SUCCEEDED " + str(os.listdir(os.path.dirname(program)))

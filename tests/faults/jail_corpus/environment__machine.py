"""environment: learn the machine's name.

ends: nothing
process: succeeds (machine)
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        name = os.uname().nodename
        return "nothing" if name == "jail" else f"SUCCEEDED {name}"

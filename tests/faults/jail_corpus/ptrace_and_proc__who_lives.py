"""ptrace and proc: find out which process ids are in use.

ends: nothing
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        alive = []
        for process in range(1, 3000):
            try:
                os.sched_getaffinity(process)
            except PermissionError:
                continue
            except ProcessLookupError:
                return "SUCCEEDED"
            alive.append(process)
        return f"SUCCEEDED {alive}" if alive else "nothing"

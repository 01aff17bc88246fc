"""ptrace and proc: learn its own process id from /proc.

ends: error: FileNotFoundError
process: succeeds (processes)
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        return f"SUCCEEDED {os.readlink('/proc/self')}"

"""ptrace and proc: list the processes.

ends: error: FileNotFoundError
process: succeeds (processes)
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        return f"SUCCEEDED {[name for name in os.listdir('/proc') if name.isdigit()]}"

"""ptrace and proc: read other processes' memory in /proc.

ends: error: FileNotFoundError
process: may succeed (processes)
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        for process in os.listdir("/proc"):
            if process.isdigit():
                try:
                    open(f"/proc/{process}/mem", "rb")
                except OSError:
                    continue
                if os.path.realpath("/proc/self") != f"/proc/{process}":
                    return f"SUCCEEDED {process}"
        return "nothing"

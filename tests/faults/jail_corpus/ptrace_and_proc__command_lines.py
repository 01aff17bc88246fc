"""ptrace and proc: read other processes' command lines.

ends: error: FileNotFoundError
process: succeeds (processes)
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        return "SUCCEEDED " + open("/proc/1/cmdline").read().replace("\0", " ")

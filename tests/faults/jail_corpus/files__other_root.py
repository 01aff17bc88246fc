"""files: leave through another process's root.

ends: error: (FileNotFound|Permission)Error
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        return "SUCCEEDED " + open("/proc/1/root/etc/passwd").readline()

"""environment: read its own environment in /proc.

ends: nothing|error: (FileNotFound|Permission)Error
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        text = open("/proc/self/environ").read()
        return "SUCCEEDED" if "CORPUS_KEY" in text else "nothing"

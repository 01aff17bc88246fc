"""smuggling: show a number by the memory it holds.

ends: error: FileNotFoundError
process: succeeds (marks)
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        held = bytearray(40 << 20)
        await model.chat([{"role": "user", "content": "x"}])
        own = os.readlink("/proc/self")
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                pages = int(open(f"/proc/{process}/statm").read().split()[1])
                state = open(f"/proc/{process}/stat").read()
            except OSError:
                continue
            if (
                process != own
                and pages > (40 << 8)
                and open("/proc/self/stat").read().split()[3] in state
            ):
                return f"SUCCEEDED {process} {len(held)}"
        return "nothing"

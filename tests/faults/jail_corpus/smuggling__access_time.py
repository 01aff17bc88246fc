"""smuggling: leave a mark in a file's access time.

ends: error: FileNotFoundError
process: may succeed (marks)
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        before = os.stat("@MARK@").st_atime_ns
        open("@MARK@").read()
        await model.chat([{"role": "user", "content": "x"}])
        return "SUCCEEDED" if os.stat("@MARK@").st_atime_ns != before else "nothing"

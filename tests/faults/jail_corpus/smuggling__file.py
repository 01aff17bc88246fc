"""smuggling: leave the letters in a file for the next episode.

ends: error: PermissionError
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.close(os.open("/tmp/letters", os.O_CREAT | os.O_WRONLY))
        return "SUCCEEDED"

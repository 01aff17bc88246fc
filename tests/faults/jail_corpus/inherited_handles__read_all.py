"""inherited handles: read whatever its descriptors give.

ends: nothing
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        found = b""
        for number in (0, 1, 2):
            try:
                found += os.read(number, 4096)
            except OSError:
                continue
        return f"SUCCEEDED {found!r}" if found else "nothing"

"""inherited handles: find descriptors that are not its own.

ends: nothing
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        opened = []
        for number in range(1024):
            try:
                os.fstat(number)
            except OSError:
                continue
            opened.append(number)
        return (
            "nothing" if opened[:4] == [0, 1, 2, 3] and len(opened) <= 7 else f"SUCCEEDED {opened}"
        )

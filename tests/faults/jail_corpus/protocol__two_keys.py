"""protocol: send a line with one key twice.

ends: nothing
"""

import os
import time

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.write(3, b'{"n":0,"finished":"SUCCEEDED","n":0,"finished":"nothing"}\n')
        time.sleep(60)

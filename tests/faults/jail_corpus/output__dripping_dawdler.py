"""output: let a little be read in every turn, so that it never seems to wait.

ends: stalled
group: stall
"""

import os
import time

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        for number in range(40):
            for part in (b'{"n":%d,' % number, b'"tool":{"name":"nothing",', b'"arguments":{}}}\n'):
                time.sleep(0.02)
                os.write(3, part)
                time.sleep(0.3)
            env._channel.read_line()
        return "SUCCEEDED"

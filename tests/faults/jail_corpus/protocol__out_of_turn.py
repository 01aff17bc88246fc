"""protocol: send two requests at once.

ends: protocol
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        line = '{"n":%d,"tool":{"name":"say","arguments":{}}}\n'
        os.write(3, (line % 0 + line % 1).encode())
        env._channel.read_line()
        env._channel.read_line()
        return "SUCCEEDED"

"""protocol: send a number with very many digits.

ends: protocol
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.write(
            3, b'{"n":0,"tool":{"name":"say","arguments":{"letter":' + b"9" * 100_000 + b"}}}\n"
        )
        os.read(3, 1)

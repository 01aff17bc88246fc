"""smuggling: move the position of a shared descriptor.

ends: nothing
"""

import os

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        os.lseek(0, ord(task["letters"][0]), os.SEEK_SET)
        await model.chat([{"role": "user", "content": "x"}])
        position = os.lseek(0, 0, os.SEEK_CUR)
        return f"SUCCEEDED {position}" if position else "nothing"

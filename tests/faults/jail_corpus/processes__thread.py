"""processes: start a thread that goes on while the harness waits.

ends: error: RuntimeError: can't start new thread
"""

import threading

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        threading.Thread(target=print).start()
        return "SUCCEEDED"

"""ptrace and proc: learn its own process id, which counts up from episode to episode.

ends: nothing
"""

import os
import threading

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        known = [os.getpid(), threading.get_native_id(), threading.main_thread().native_id]
        return f"SUCCEEDED {known}" if os.getpid() > 0 else "nothing"

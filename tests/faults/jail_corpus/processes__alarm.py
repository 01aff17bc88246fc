"""processes: set an alarm.

ends: nothing
group: stall
"""

import signal
import time

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        rang = []
        signal.signal(signal.SIGALRM, lambda number, frame: rang.append(number))
        signal.alarm(1)
        time.sleep(1.3)
        return "SUCCEEDED" if rang else "nothing"

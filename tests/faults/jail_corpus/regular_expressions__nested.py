"""regular expressions: match a pattern that backtracks exponentially.

ends: cpu
group: cpu
"""

import re

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        return f"SUCCEEDED {re.match('(a+)+$', 'a' * 60 + 'b')}"

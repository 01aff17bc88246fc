"""regular expressions: match alternatives that overlap.

ends: cpu
group: cpu
"""

import re

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        return f"SUCCEEDED {re.fullmatch('(ab|a|b)*c', 'ab' * 60)}"

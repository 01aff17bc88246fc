"""frames and gc: find the example's name in what the jail was given.

ends: nothing
"""

import gc

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        gc.unfreeze()
        texts = [
            repr(value) for value in gc.get_objects() if type(value) is dict and "task" in value
        ]
        found = [text for text in texts if "weight-0" in text]
        return f"SUCCEEDED {found}" if found else "nothing"

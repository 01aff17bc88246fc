"""frames and gc: find other tasks among all objects, the zygote's included.

ends: nothing
"""

import gc

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        gc.unfreeze()
        found = [
            value
            for value in gc.get_objects()
            if isinstance(value, dict)
            and value is not task
            and isinstance(value.get("letters"), str)
            and value["letters"] != task["letters"]
        ]
        return f"SUCCEEDED {found}" if found else "nothing"

"""frames and gc: find other episodes or the zygote's books in the frames below its own.

ends: nothing
"""

import sys

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        frame, found = sys._getframe(), []
        while frame is not None:
            for name, value in frame.f_locals.items():
                if name in ("children", "child", "order", "process", "control", "ready"):
                    found.append(name)
                if (
                    isinstance(value, dict)
                    and value.get("letters", task["letters"]) != task["letters"]
                ):
                    found.append(value)
            frame = frame.f_back
        return f"SUCCEEDED {found}" if found else "nothing"

"""frames and gc: find out which example this is from the random seed.

ends: nothing
"""

import hashlib
import json
import sys

from whale_harness import BaseHarness


def digest(text):
    data = text.encode()
    return hashlib.sha256(len(data).to_bytes(8, "big") + data).hexdigest()[:16]


class Harness(BaseHarness):
    async def run(self, task, model, env):
        frame, seed = sys._getframe(), None
        while frame is not None and seed is None:
            seed = frame.f_locals.get("start", {}).get("seed")
            frame = frame.f_back
        for number in range(3):
            for split in ("weight", "harness", "selection", "test"):
                for index in range(64):
                    name = f"{split}-{index:04d}"
                    if digest(digest(json.dumps(["harness", number, name, 0]))) == seed:
                        return f"SUCCEEDED {name}"
        return "nothing"

"""smuggling: leave the letters in a module.

ends: nothing
"""

import json

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        seen = getattr(json, "seen", [])
        json.seen = [*seen, task["letters"]]
        await model.chat([{"role": "user", "content": "x"}])
        others = [letters for letters in json.seen if letters != task["letters"]]
        return f"SUCCEEDED {others}" if others else "nothing"

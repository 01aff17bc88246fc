"""smuggling: leave the letters in a class attribute.

ends: nothing
"""

from whale_harness import BaseHarness, Model

SEEN = []


class Harness(BaseHarness):
    async def run(self, task, model, env):
        Model.seen = [*getattr(Model, "seen", []), task["letters"]]
        SEEN.append(task["letters"])
        await model.chat([{"role": "user", "content": "x"}])
        others = [letters for letters in Model.seen + SEEN if letters != task["letters"]]
        return f"SUCCEEDED {others}" if others else "nothing"

"""solving: have the model list every letter and pick the right one.

ends: nothing
gate: null
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        reply = await model.chat(
            [{"role": "user", "content": f"Letters: {task['letters']}. Repeat all."}]
        )
        said = [c for c in reply.text if c in "aeiou" and c in task["letters"]]
        if said:
            await env.call("say", letter=said[0])
        return "nothing"

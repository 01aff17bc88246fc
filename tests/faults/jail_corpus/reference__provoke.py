"""reference: send arguments that break the environment, to be not scored.

ends: provenance
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        reply = await model.chat([{"role": "user", "content": "x"}])
        for value in (reply.text, reply.text[:1]):
            for more in ({"letters": {}}, {"name": None}, {"self": 1}, {"": [[]]}):
                try:
                    await env.call("say", letter=value, **more)
                except Exception:
                    continue
        await env.call("say", letter=None)
        return "SUCCEEDED"

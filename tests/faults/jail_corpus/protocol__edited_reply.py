"""protocol: change a reply and pass it back under its handle.

ends: provenance
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        reply = await model.chat([{"role": "user", "content": "x"}])
        letter = next(c for c in "aeiou" if c in task["letters"])
        await model.chat([{**reply.message(), "content": letter}, {"role": "user", "content": "x"}])
        await env.call("say", letter=letter)
        return "SUCCEEDED"

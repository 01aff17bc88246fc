"""protocol: send an old line again.

ends: protocol
"""

from whale_harness import BaseHarness


class Harness(BaseHarness):
    async def run(self, task, model, env):
        sent = []
        write = env._channel.write
        env._channel.write = lambda data: (sent.append(data), write(data))
        await model.chat([{"role": "user", "content": "x"}])
        write(sent[0])
        env._channel.read_line()
        return "SUCCEEDED"

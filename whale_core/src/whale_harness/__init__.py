"""The harness SDK: all that a harness program may import besides the standard library.

A harness is one file that defines ``Harness``::

    from whale_harness import BaseHarness, fill

    class Harness(BaseHarness):
        USER_PROMPT = "Solve this: {question}"

        async def run(self, task, model, env):
            prompt = fill(self.USER_PROMPT, question=task["question"])
            messages = [{"role": "user", "content": prompt}]
            reply = await model.chat(messages)
            return reply.text

It runs in a process of its own for each episode; the model, the tools and the verifier are outside.
"""

from __future__ import annotations

from whale_harness.base import BaseHarness
from whale_harness.environment import Env, ToolError
from whale_harness.model import Model, Reply
from whale_harness.template import fill

__all__ = ["BaseHarness", "Env", "Model", "Reply", "ToolError", "fill"]

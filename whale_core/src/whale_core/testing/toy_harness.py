"""The toy domain's base harness: the reply's first character must be the letter."""

from whale_harness import BaseHarness, fill


class Harness(BaseHarness):
    SYSTEM_PROMPT = "Say one letter."
    USER_PROMPT = "Letters: {letters}"
    MAX_TOKENS = 2

    def messages(self, task):
        return [
            {"role": "system", "content": self.SYSTEM_PROMPT},
            {"role": "user", "content": fill(self.USER_PROMPT, letters=task["letters"])},
        ]

    def parse(self, text, task):
        return text[:1]

    async def run(self, task, model, env):
        reply = await model.chat(self.messages(task), max_tokens=self.MAX_TOKENS)
        letter = self.parse(reply.text, task)
        if letter:
            await env.call("say", letter=letter)
        return reply.text

"""The toy domain's base harness: the first listed letter of the reply is what counts."""

from typing import Any

from whale_harness import BaseHarness, fill


class Harness(BaseHarness):
    """Asks once and says the first listed letter of the reply."""

    SYSTEM_PROMPT = "Say one letter."
    USER_PROMPT = "Letters: {letters}"
    MAX_TOKENS = 8

    def messages(self, task: Any) -> list[Any]:
        """Return the conversation's start."""
        return [
            {"role": "system", "content": self.SYSTEM_PROMPT},
            {"role": "user", "content": fill(self.USER_PROMPT, letters=task["letters"])},
        ]

    def parse(self, text: str, task: Any) -> str:
        """Return the letter that the reply means, or nothing."""
        return next((character for character in text if character in task["letters"]), "")

    async def run(self, task: Any, model: Any, env: Any) -> str:
        """Play one episode."""
        reply = await model.chat(self.messages(task), max_tokens=self.MAX_TOKENS)
        letter = self.parse(reply.text, task)
        if letter:
            await env.call("say", letter=letter)
        return str(reply.text)

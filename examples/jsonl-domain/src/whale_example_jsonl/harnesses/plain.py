"""The base harness: asks once; what stands after ``Answer:`` counts, or else the whole reply."""

import re
from typing import Any

from whale_harness import BaseHarness, fill


class Harness(BaseHarness):
    """Written in small members, so that edits can replace one at a time."""

    SYSTEM_PROMPT = "You answer questions."
    USER_PROMPT = "{question}\nEnd with a line: Answer: <answer>"
    EXAMPLE = ()  # a question and a reply, shown first
    MAX_TOKENS = 32

    def messages(self, task: Any) -> list[Any]:
        """Return the conversation's start."""
        question = fill(self.USER_PROMPT, question=task["question"])
        shown: list[Any] = []
        if self.EXAMPLE:
            asked, replied = self.EXAMPLE
            shown = [
                {"role": "user", "content": fill(self.USER_PROMPT, question=asked)},
                {"role": "assistant", "content": replied},
            ]
        system = {"role": "system", "content": self.SYSTEM_PROMPT}
        return [system, *shown, {"role": "user", "content": question}]

    def parse(self, text: str) -> str:
        """Return the answer that the reply commits to."""
        found = re.findall(r"Answer:[ \t]*(.*\S)", text)
        return found[0] if found else text.strip()

    async def run(self, task: Any, model: Any, env: Any) -> str:
        """Play one episode; the returned text must be a span of what the model wrote."""
        reply = await model.chat(self.messages(task), max_tokens=self.MAX_TOKENS)
        return self.parse(reply.text) or str(reply.text)

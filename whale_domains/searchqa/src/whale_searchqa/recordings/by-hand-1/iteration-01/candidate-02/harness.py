"""A harness in the manner of Search-R1: several searches, three passages, a worked episode."""

from __future__ import annotations

import re
from typing import Any

from whale_harness import BaseHarness, Env, Model, ToolError, fill


class Harness(BaseHarness):
    """Search, read, answer; short prompts, made for small models too."""

    SYSTEM_PROMPT = (
        "Answer the question from the information. Write only the answer, in <answer></answer> "
        "tags. If it is not there, search on: <search>query</search>."
    )
    USER_PROMPT = "{found}\nQuestion: {question}"
    MAX_TURNS = 4  # model calls
    MAX_TOKENS = 48  # of a reply
    STOP = ("</search>", "</answer>")
    TOPK = 3
    MAX_DOC_TOKENS = 60

    async def run(self, task: dict[str, Any], model: Model, env: Env) -> str:
        """Let the model search and answer until it stops or its turns are used up."""
        task = {**task, "found": await self.beforehand(task, env)}
        history: list[Any] = []
        for left in reversed(range(self.MAX_TURNS)):
            reply = await model.chat(
                self.messages(task, history),
                max_tokens=self.MAX_TOKENS,
                stop=self.STOP,
                tools=self.tools(),
            )
            if left == 0:
                break
            queries = self.parse_queries(reply.text, task)
            told = [
                self.result_message(await self.search(self.rewrite(query, task), env))
                for query in queries
            ]
            if not queries:
                nudge = self.nudge(reply.text, task)
                if not nudge:
                    break
                told = [{"role": "user", "content": nudge}]
            history += [reply, *told]
        return self.parse_answer(reply.text)

    async def beforehand(self, task: dict[str, Any], env: Env) -> str:
        """Return text found before the first call, to show with the question: a search for it."""
        return self.told(await self.search(self.rewrite(task["question"], task), env))

    def messages(self, task: dict[str, Any], history: list[Any]) -> list[Any]:
        """Return a call's messages: opening, question, earlier replies with what they were told."""
        return [*self.opening(), {"role": "user", "content": self.user_text(task)}, *history]

    def opening(self) -> list[Any]:
        """Return the messages that begin every call."""
        return [{"role": "system", "content": self.SYSTEM_PROMPT}, *self.example()]

    def example(self) -> list[Any]:
        """Return two worked episodes to show first: one answers at once, one searches on."""
        text = "Ludwig Farren was a printer, born in Oxley in 1802. Farren studied law."
        told = self.told(self.information([{"title": "Ludwig Farren", "text": text}]))
        asked = {"question": "In which year was Ludwig Farren born?", "found": told}
        bridge = "Velm Bridge is a bridge built by Odo Karsten. It has nine arches."
        mason = "Odo Karsten was a mason from Oxley. Karsten owned a vineyard."
        seen = self.told(self.information([{"title": "Velm Bridge", "text": bridge}]))
        linked = {"question": "What did the man who built Velm Bridge own?", "found": seen}
        return [
            {"role": "user", "content": self.user_text(asked)},
            {"role": "assistant", "content": "<answer>1802</answer>"},
            {"role": "user", "content": self.user_text(linked)},
            {"role": "assistant", "content": "<search>Odo Karsten</search>"},
            self.result_message(self.information([{"title": "Odo Karsten", "text": mason}])),
            {"role": "assistant", "content": "<answer>vineyard</answer>"},
        ]

    def user_text(self, task: dict[str, Any]) -> str:
        """Return the user message that asks."""
        return fill(self.USER_PROMPT, question=task["question"], found=task["found"])

    def tools(self) -> list[dict[str, Any]] | None:
        """Return the tool schemas for the chat template; None where replies are plain text."""
        return None

    def parse_queries(self, text: str, task: dict[str, Any]) -> list[str]:
        """Return the query that a reply asks for in tags, the last one, if there is any."""
        found = re.findall(r"<search>\s*([^<>]*?)\s*</search>", text)
        return [query for query in found[-1:] if query]

    def rewrite(self, query: str, task: dict[str, Any]) -> str:
        """Return the query to search for in place of the model's."""
        return query

    async def search(self, query: str, env: Env) -> str:
        """Return what a search finds, as text; or what was wrong with it."""
        try:
            found = await env.call(
                "search", query=query, topk=self.TOPK, max_doc_tokens=self.MAX_DOC_TOKENS
            )
        except ToolError as error:
            return "[search error] " + str(error)
        return self.information(found["documents"]) or "[no result]"

    def information(self, documents: list[dict[str, str]]) -> str:
        """Return the documents as text."""
        return "\n".join(
            "Doc " + str(number) + " (Title: " + document["title"] + ") " + document["text"]
            for number, document in enumerate(documents, 1)
        )

    def result_message(self, text: str) -> dict[str, str]:
        """Return the message that tells the model what a search found."""
        return {"role": "user", "content": self.told(text)}

    def told(self, text: str) -> str:
        """Return the text of a search's result as the model gets it."""
        return "<information>" + text + "</information>"

    def nudge(self, text: str, task: dict[str, Any]) -> str:
        """Return what to say to a reply that asks for no search; empty: it ends the episode."""
        return ""

    def parse_answer(self, text: str) -> str:
        """Return the span of the reply that is the answer, tags included; else the reply."""
        found = re.findall(r"<answer>(?:(?!</?answer>).)*</answer>", text, re.DOTALL)
        return found[-1] if found else text

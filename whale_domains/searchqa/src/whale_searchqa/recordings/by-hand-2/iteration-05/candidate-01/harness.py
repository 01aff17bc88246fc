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
    TOPK = 1
    MAX_DOC_TOKENS = 60

    async def run(self, task: dict[str, Any], model: Model, env: Env) -> str:
        """Let the model search and answer until it stops or its turns are used up."""
        task = {**task, "found": await self.beforehand(task, env)}
        sentence = await self.state(task, model)
        if sentence:
            task = {**task, "found": self.told(sentence)}
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

    STATE_PROMPT = "Answer the question from the information, in one short sentence."

    async def state(self, task: dict[str, Any], model: Model) -> str:
        """Return the model's own one-sentence answer to the question, without tags."""
        messages: list[Any] = [{"role": "system", "content": self.STATE_PROMPT}]
        for question, sentence, _, found in self.episodes():
            text = self.user_text({"question": question, "found": found})
            messages.append({"role": "user", "content": text})
            messages.append({"role": "assistant", "content": sentence})
        messages.append({"role": "user", "content": self.user_text(task)})
        reply = await model.chat(messages, max_tokens=self.MAX_TOKENS, stop=("\n",), tools=None)
        return reply.text.strip()

    async def beforehand(self, task: dict[str, Any], env: Env) -> str:
        """Return text found before the first call, to show with the question: a search for it."""
        return self.told(await self.search(self.rewrite(task["question"], task), env))

    def messages(self, task: dict[str, Any], history: list[Any]) -> list[Any]:
        """Return a call's messages: opening, question, earlier replies with what they were told."""
        return [*self.opening(), {"role": "user", "content": self.user_text(task)}, *history]

    def opening(self) -> list[Any]:
        """Return the messages that begin every call."""
        return [{"role": "system", "content": self.SYSTEM_PROMPT}, *self.example()]

    def episodes(self) -> list[tuple[str, str, str, str]]:
        """Return worked episodes: question, sentence that answers it, answer, text found."""
        person = ("Ludwig Farren", "Ludwig Farren was a printer, born in Oxley in 1802.")
        bridge = ("Tarn Bridge", "Tarn Bridge was built by Ida Quelch. It was opened in 1911.")
        ship = ("Marigold", "The Marigold is a ship from Pelby. She carried salt until 1877.")
        asked = [
            (
                "In which year was Ludwig Farren born?",
                "Ludwig Farren was born in 1802.",
                "1802",
                [person, bridge],
            ),
            (
                "Who built Tarn Bridge?",
                "Tarn Bridge was built by Ida Quelch.",
                "Ida Quelch",
                [bridge, person, ship],
            ),
            (
                "What did the Marigold carry?",
                "The Marigold carried salt.",
                "salt",
                [ship, bridge, person],
            ),
            (
                "Where was the printer Ludwig Farren born?",
                "Ludwig Farren was born in Oxley.",
                "Oxley",
                [ship, person],
            ),
        ]
        return [
            (
                question,
                sentence,
                answer,
                self.told(
                    self.information([{"title": title, "text": text} for title, text in pairs])
                ),
            )
            for question, sentence, answer, pairs in asked
        ]

    def short_episodes(self) -> list[tuple[str, str, str]]:
        """Return worked episodes for the second step: question, sentence, answer; no name twice."""
        return [
            ("Who built Tarn Bridge?", "Tarn Bridge was built by Ida Quelch.", "Ida Quelch"),
            ("When did the Marigold sink?", "The Marigold sank in 1877.", "1877"),
            ("What did Piet Osk sell?", "Piet Osk sold lamps, in a shop.", "lamps"),
            ("Where is Holm Abbey?", "Holm Abbey is in Wexley.", "Wexley"),
            ("Who owned the mill?", "Anna Drew owned the mill.", "Anna Drew"),
            ("In which year was the road laid?", "The road was laid in 1640.", "1640"),
            ("What is the island rich in?", "The island is rich in its copper.", "copper"),
            ("Which sport did Otto Lund like?", "Otto Lund liked rowing.", "rowing"),
        ]

    def example(self) -> list[Any]:
        """Return worked episodes to show first, as messages: from a sentence to the answer."""
        shown: list[Any] = []
        for question, sentence, answer in self.short_episodes():
            text = self.user_text({"question": question, "found": self.told(sentence)})
            shown.append({"role": "user", "content": text})
            shown.append({"role": "assistant", "content": "<answer>" + answer + "</answer>"})
        return shown

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
        """Return the best document alone, as plain text: nothing to choose from."""
        return "".join(document["text"] for document in documents[:1])

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

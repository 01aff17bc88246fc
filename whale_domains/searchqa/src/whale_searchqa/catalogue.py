"""The catalogue of edits for the offline proposer.

Each edit is one mechanism, written as the class members it puts in place of the parent's. The
members have the same interfaces in all base harnesses, so edits combine and crossover is safe. Some
are useful, some neutral, some harmful: a search has to find out which.
"""

from __future__ import annotations

from whale_core.edits import edit

SYSTEM = "A: system prompt"
USER = "B: user template"
QUERY = "C: query rewriting"
RETRIEVAL = "D: retrieval parameters"
FEEDBACK = "E: between-turn response"
STOPPING = "F: stop condition"


CATALOGUE = (
    # --- A: system prompt -------------------------------------------------------------------------
    edit(
        "name-the-protocol",
        SYSTEM,
        "useful",
        "A model that is told both tags by example in the instruction uses them.",
        r"""
SYSTEM_PROMPT = (
    "Look things up before you answer. To search, write <search>what to look for</search>. When "
    "you have read the answer, write <answer>the answer</answer> and nothing else."
)
""",
    ),
    edit(
        "worked-episode",
        SYSTEM,
        "useful",
        "One worked episode shows search, reading and the form of the answer better than words.",
        r"""
def example(self) -> list[Any]:
    text = "Ludwig Farren was a printer, born in Oxley in 1802. Farren studied law."
    found = self.told(self.information([{"title": "Ludwig Farren", "text": text}]))
    asked = {"question": "In which year was Ludwig Farren born?", "found": ""}
    return [
        {"role": "user", "content": self.user_text(asked)},
        {"role": "assistant", "content": "<search>Ludwig Farren born</search>"},
        {"role": "user", "content": found},
        {"role": "assistant", "content": "<answer>1802</answer>"},
    ]
""",
    ),
    edit(
        "two-worked-answers",
        SYSTEM,
        "useful",
        "Two questions about one passage show that the answer depends on what is asked.",
        r"""
def example(self) -> list[Any]:
    text = "Ludwig Farren was a printer, born in Oxley in 1802. Farren studied law."
    found = self.told(self.information([{"title": "Ludwig Farren", "text": text}]))
    worked = []
    for question, answer in (
        ("In which year was Ludwig Farren born?", "1802"),
        ("What did Ludwig Farren study?", "law"),
    ):
        asked = self.user_text({"question": question, "found": found})
        worked.append({"role": "user", "content": asked})
        worked.append({"role": "assistant", "content": "<answer>" + answer + "</answer>"})
    return worked
""",
    ),
    edit(
        "long-system",
        SYSTEM,
        "harmful",
        "Detailed rules of research make the model careful.",
        r"""
SYSTEM_PROMPT = (
    "You are a careful researcher. Before you answer, think about what is asked and which facts "
    "are needed. Plan your searches. Compare what different sources say, and prefer the source "
    "that speaks about the very thing that is asked. Do not trust your memory, and do not guess. "
    "If a source does not help, look for another one. When you are sure, explain how you found "
    "out, and then give the final answer inside <answer></answer> tags."
)
""",
    ),
    # --- B: user template -------------------------------------------------------------------------
    edit(
        "plain-question",
        USER,
        "neutral",
        "The question alone leaves no words between it and the reply.",
        'USER_PROMPT = "{found}\\nQuestion: {question}"\n',
    ),
    edit(
        "form-after-question",
        USER,
        "useful",
        "The wanted form, shown last, is what the reply begins with.",
        r"""
USER_PROMPT = (
    "{found}\nQuestion: {question}\n"
    "Write <search>query</search> to look something up, or <answer>answer</answer> if you know it."
)
""",
    ),
    edit(
        "think-first",
        USER,
        "harmful",
        "Reasoning before the answer improves it.",
        r"""
USER_PROMPT = (
    "{found}\nQuestion: {question}\nThink step by step, write your thoughts down, then search or "
    "give the final answer inside <answer></answer> tags."
)
""",
    ),
    # --- C: query rewriting -----------------------------------------------------------------------
    edit(
        "question-as-query",
        QUERY,
        "useful",
        "The question holds every name that a passage must hold; a model's query loses some.",
        r"""
def rewrite(self, query: str, task: dict[str, Any]) -> str:
    return task["question"]
""",
    ),
    edit(
        "query-with-question",
        QUERY,
        "useful",
        "The model's query leads on, the question keeps it to the subject.",
        r"""
def rewrite(self, query: str, task: dict[str, Any]) -> str:
    return query + " " + task["question"]
""",
    ),
    edit(
        "names-only-query",
        QUERY,
        "neutral",
        "Names find passages, small words only distract.",
        r"""
def rewrite(self, query: str, task: dict[str, Any]) -> str:
    names = [word for word in query.split() if word[:1].isupper() or word[:1].isdigit()]
    return " ".join(names) or query
""",
    ),
    edit(
        "first-words-query",
        QUERY,
        "harmful",
        "Short queries are clear.",
        r"""
def rewrite(self, query: str, task: dict[str, Any]) -> str:
    return " ".join(query.split()[:2])
""",
    ),
    edit(
        "search-beforehand",
        QUERY,
        "useful",
        "A small model forgets to search: look the question up before it is asked anything.",
        r"""
USER_PROMPT = (
    "{found}\nQuestion: {question}\nGive only the final answer, inside <answer></answer> tags."
)


async def beforehand(self, task: dict[str, Any], env: Env) -> str:
    return self.told(await self.search(self.rewrite(task["question"], task), env))
""",
    ),
    edit(
        "follow-new-names",
        QUERY,
        "useful",
        "The passage that the question finds may only name what has the answer: look that up too.",
        r"""
USER_PROMPT = "{found}\nQuestion: {question}"


async def beforehand(self, task: dict[str, Any], env: Env) -> str:
    question = self.rewrite(task["question"], task)
    try:
        found = (await env.call("search", query=question, topk=1))["documents"]
        words = [word.strip(".,;:()") for document in found for word in document["text"].split()]
        names = [word for word in words if word[:1].isupper() and word not in task["question"]]
        more = await env.call("search", query=" ".join(names) or question, topk=self.TOPK)
    except ToolError as error:
        return self.told("[search error] " + str(error))
    others = [document for document in more["documents"] if document not in found]
    return self.told(self.information([*found, *others]))
""",
    ),
    # --- D: retrieval parameters ------------------------------------------------------------------
    edit(
        "one-short-document",
        RETRIEVAL,
        "useful",
        "One passage, its beginning only, is what a small model can read.",
        "TOPK = 1\nMAX_DOC_TOKENS = 40\n",
    ),
    edit(
        "three-documents",
        RETRIEVAL,
        "neutral",
        "The right passage is among the first three more often than first.",
        "TOPK = 3\n",
    ),
    edit(
        "ten-documents",
        RETRIEVAL,
        "harmful",
        "More passages hold the answer more often.",
        "TOPK = 10\nMAX_DOC_TOKENS = 200\n",
    ),
    # --- E: between-turn response -----------------------------------------------------------------
    edit(
        "question-after-information",
        FEEDBACK,
        "useful",
        "Asked again right below the passages, with the form, the model reads them for the answer.",
        r"""
def told(self, text: str) -> str:
    return "<information>" + text + "</information>\nAnswer in <answer></answer> tags."
""",
    ),
    edit(
        "text-without-titles",
        FEEDBACK,
        "neutral",
        "Numbers and titles before each text are not what is asked for.",
        r"""
def information(self, documents: list[dict[str, str]]) -> str:
    return "\n".join(document["text"] for document in documents)
""",
    ),
    edit(
        "best-document-last",
        FEEDBACK,
        "neutral",
        "What stands nearest to the reply is copied most easily.",
        r"""
def information(self, documents: list[dict[str, str]]) -> str:
    return "\n".join(
        "(Title: " + document["title"] + ") " + document["text"]
        for document in reversed(documents)
    )
""",
    ),
    edit(
        "ask-for-the-form",
        FEEDBACK,
        "useful",
        "A reply without an answer in tags deserves to hear what is missing.",
        r"""
def nudge(self, text: str, task: dict[str, Any]) -> str:
    if "</answer>" in text:
        return ""
    return "Write only the final answer, in this form: <answer>answer</answer>"
""",
    ),
    # --- F: stop condition ------------------------------------------------------------------------
    edit(
        "stop-at-tags",
        STOPPING,
        "useful",
        "What follows the first closing tag can only spoil it.",
        'STOP = ("</search>", "</answer>")\nMAX_TOKENS = 48\n',
    ),
    edit(
        "more-turns",
        STOPPING,
        "neutral",
        "A second search, or a second try, needs turns.",
        "MAX_TURNS = 6\n",
    ),
    edit(
        "one-turn",
        STOPPING,
        "harmful",
        "Answering at once saves time.",
        "MAX_TURNS = 1\n",
    ),
)

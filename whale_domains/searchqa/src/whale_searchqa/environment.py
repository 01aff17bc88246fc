"""One episode: a question and the tool ``search``."""

from __future__ import annotations

import re
from collections.abc import Mapping

from whale_core.records import Example, Json
from whale_core.roles import Tool
from whale_searchqa.answers import contained
from whale_searchqa.retrieval.retriever import Retriever

TOPK, MAX_DOC_TOKENS = 3, 200
MOST_DOCUMENTS, MOST_TOKENS, MOST_CHARACTERS = 20, 2000, 2000
TOKEN = re.compile(r"\w+|[^\w\s]")

SEARCH = Tool(
    name="search",
    description="Search the corpus. Returns documents, a list of title and text, best first.",
    parameters={
        "query": "str",
        "topk": f"int, 1 to {MOST_DOCUMENTS}; {TOPK} if left out",
        "max_doc_tokens": f"int, 1 to {MOST_TOKENS}: words and punctuation marks to keep of each "
        f"text; {MAX_DOC_TOKENS} if left out",
    },
)


class SearchEnvironment:
    """An episode of one question."""

    def __init__(self, example: Example, retriever: Retriever) -> None:
        """Take what is asked, and leave the answers outside."""
        self._question = example.content["question"]
        self._answers = example.content["answers"]
        self._retriever = retriever
        self._searches: list[dict[str, Json]] = []

    def view(self) -> Mapping[str, Json]:
        """Return what a harness sees: the question."""
        return {"question": self._question}

    async def call(self, name: str, arguments: Mapping[str, Json]) -> Json:
        """Search, and return ``{"documents": [{"title", "text"}, …]}``.

        Raises:
            ValueError: bad arguments. What the retriever raises is no fault of the harness.
        """
        query, topk, tokens = _arguments(name, arguments)
        [hits] = await self._retriever.search([query], topk)
        documents = [
            {"title": hit.passage.title, "text": truncated(hit.passage.text, tokens)}
            for hit in hits
        ]
        shown = "\n".join(f"{each['title']}\n{each['text']}" for each in documents)
        self._searches.append(
            {
                "query": query,
                "topk": topk,
                "max_doc_tokens": tokens,
                "ids": [hit.passage.id for hit in hits],
                "evidence": contained(shown, self._answers),
            }
        )
        return {"documents": documents}

    def record(self) -> Mapping[str, Json]:
        """Return every search with the ids of what it fetched, and whether that held an answer."""
        return {
            "searches": [dict(search) for search in self._searches],
            "evidence": any(search["evidence"] for search in self._searches),
        }


def truncated(text: str, tokens: int) -> str:
    """Return the beginning of ``text``, up to ``tokens`` words and punctuation marks.

    The published rule counts tokens of the policy's tokenizer, which are some more.
    """
    for count, match in enumerate(TOKEN.finditer(text), 1):
        if count == tokens:
            return text[: match.end()]
    return text


def _arguments(name: str, arguments: Mapping[str, Json]) -> tuple[str, int, int]:
    """Return query, number of documents and their length, or say what is wrong with them."""
    if name != SEARCH.name:
        raise ValueError(f"there is no tool {name!r}; the only tool is 'search'")
    if not {"query"} <= set(arguments) <= set(SEARCH.parameters):
        raise ValueError("search takes query and, if wanted, topk and max_doc_tokens")
    query = arguments["query"]
    if not isinstance(query, str) or not query.strip():
        raise ValueError("query must be a text with something in it")
    if len(query) > MOST_CHARACTERS:
        raise ValueError(f"query has {len(query)} characters; {MOST_CHARACTERS} are the most")
    topk = _whole(arguments, "topk", TOPK, MOST_DOCUMENTS)
    return query, topk, _whole(arguments, "max_doc_tokens", MAX_DOC_TOKENS, MOST_TOKENS)


def _whole(arguments: Mapping[str, Json], name: str, default: int, most: int) -> int:
    value = arguments.get(name, default)
    if type(value) is not int or not 1 <= value <= most:
        raise ValueError(f"{name} must be a whole number, 1 to {most}")
    return value

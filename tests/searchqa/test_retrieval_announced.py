from __future__ import annotations

import json
import threading
import urllib.request

from whale_searchqa.retrieval.bm25 import BM25Retriever
from whale_searchqa.retrieval.passages import Passage
from whale_searchqa.retrieval.serve import application, listen


def test_who_connects_as_soon_as_the_address_is_told_is_answered() -> None:
    import uvicorn

    retriever = BM25Retriever.in_memory([Passage("1", "A", "some words")])
    with listen("127.0.0.1", 0) as bound:
        body = json.dumps({"queries": ["words"], "topk": 1}).encode()
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/retrieve"
        answers: list[bytes] = []
        client = threading.Thread(
            target=lambda: answers.append(urllib.request.urlopen(url, body, timeout=30).read())
        )
        client.start()  # before there is a server
        client.join(0.3)
        assert client.is_alive()
        server = uvicorn.Server(uvicorn.Config(application(retriever), log_level="warning"))
        serving = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        serving.start()
        client.join(30)
        server.should_exit = True
        serving.join(30)
    assert json.loads(answers[0])["result"][0][0]["id"] == "1"

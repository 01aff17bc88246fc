"""The command ``whale-searchqa`` and the server it runs, by real processes and real requests."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from retrieval_kit import rows, write_corpus
from starlette.testclient import TestClient

from whale_core.abilities import NamesService
from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_searchqa.cli import main
from whale_searchqa.config import Config
from whale_searchqa.domain import SearchQADomain
from whale_searchqa.retrieval import serve
from whale_searchqa.retrieval.config import RetrieverConfig
from whale_searchqa.retrieval.http import HttpRetriever
from whale_searchqa.retrieval.open import open_index

COMMAND = [sys.executable, "-m", "whale_searchqa.cli"]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    write_corpus(folder / "c.jsonl", rows(200))
    made = subprocess.run(
        [*COMMAND, "index", folder / "c.jsonl", "--out", folder / "index"],
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    assert "bm25, 200 passages" in made.stdout and "counting words" not in made.stdout
    return folder / "index"


@pytest.fixture(scope="module")
def url(index: Path) -> Iterator[str]:
    process = subprocess.Popen(
        [*COMMAND, "serve", index, "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        line = process.stdout.readline()
        assert line.startswith("200 passages at http://127.0.0.1:")
        yield line.split()[3]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) in (0, 130)


@pytest.mark.parametrize("scores", [True, False])
def test_what_is_served_is_what_the_index_finds(index: Path, url: str, scores: bool) -> None:
    queries = ["painter from Arlen", "mark11", "zzz", "who was Person 40?"]
    remote = HttpRetriever([url], return_scores=scores)

    async def ask() -> Any:
        found = await remote.search(queries, 4)
        singly = [(await remote.search([query], 4))[0] for query in queries[:2]]
        pair = await remote.search(queries[:2], 4)
        await remote.close()
        return found, singly, pair

    found, singly, pair = asyncio.run(ask())
    wanted = asyncio.run(open_index(index).search(queries, 4))
    assert [[hit.passage for hit in hits] for hits in found] == [
        [hit.passage for hit in hits] for hits in wanted
    ]
    assert singly == pair == found[:2]
    asked = [[hit.score if scores else None for hit in hits] for hits in wanted]
    assert [[hit.score for hit in hits] for hits in found] == asked


def test_the_protocol_byte_by_byte(url: str) -> None:
    body = {"queries": ["mark11"], "topk": 1, "return_scores": True}
    for _ in range(2):  # the same again: serving changes no document
        answer = httpx2.post(url, json=body)
        assert answer.status_code == 200
        [[hit]] = answer.json()["result"]
        assert hit["document"] == rows(12)[11] and hit["score"] > 0
    plain = httpx2.post(url, json={"queries": ["mark11"]}).json()
    assert plain["result"][0][0] == rows(12)[11]
    published = {**body, "max_doc_tokens": 3, "tokenizer_name": "some/model"}
    [[cut]] = httpx2.post(url, json=published).json()["result"]
    whole, short = (each["document"]["contents"].split("\n", 1) for each in (hit, cut))
    assert short[0] == whole[0] and whole[1].startswith(short[1]) and len(short[1].split()) == 3
    assert httpx2.post(url, json={"queries": []}).json() == {"result": []}
    health = httpx2.get(url.replace("/retrieve", "/health")).json()
    assert health["status"] == "ok" and health["passages"] == 200 and health["kind"] == "bm25"


BAD_REQUESTS: list[tuple[Any, int, str]] = [
    ("{", 400, "not JSON"),
    ("[" * 100_000, 400, "not JSON"),
    ({}, 400, "must be"),
    ({"queries": "x"}, 400, "must be"),
    ({"queries": [1]}, 400, "each must be text"),
    ('{"queries": ["\\ud800"]}', 400, "each must be text"),
    ({"queries": ["x"], "topk": 0}, 400, "topk"),
    ({"queries": ["x"], "topk": 101}, 400, "topk"),
    ({"queries": ["x"], "topk": True}, 400, "topk"),
    ({"queries": ["x"], "topk": "3"}, 400, "topk"),
    ({"queries": ["x"], "return_scores": 1}, 400, "return_scores"),
    ({"queries": ["x"], "max_doc_tokens": 0}, 400, "max_doc_tokens"),
    ({"queries": ["x"], "model": "m"}, 400, "unknown field 'model'"),
    ({"queries": ["x"] * 1025}, 413, "at most 1024"),
    ({"queries": ["x" * (1 << 20)]}, 413, "more than"),
]


def test_a_bad_request_is_told_what_is_wrong_and_the_server_goes_on(index: Path) -> None:
    with TestClient(serve.application(open_index(index))) as client:
        for body, status, said in BAD_REQUESTS:
            text = body if isinstance(body, str) else json.dumps(body)
            answer = client.post("/retrieve", content=text)
            assert (answer.status_code, said in answer.json()["error"]) == (status, True), text[:80]
        assert client.get("/retrieve").status_code == 405
        assert client.post("/retrieve", json={"queries": ["mark1"]}).status_code == 200


def test_the_domain_asks_a_server_and_refuses_a_dead_one(url: str, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    asked = [{"question": f"Who is {n}?", "golden_answers": [f"P {n}"]} for n in range(60)]
    file.write_text("".join(json.dumps(each) + "\n" for each in asked))

    def domain(address: str, questions: str = str(file)) -> SearchQADomain:
        retriever = RetrieverConfig(kind="http", url=address)
        return SearchQADomain(Config(questions=questions, retriever=retriever), Setup(seed=1))

    made = domain(url)
    assert isinstance(made, NamesService) and made.service == ""
    asyncio.run(made.probe())
    assert made.service.startswith("index ")
    assert made.version == domain(url).version  # which is known before a server is asked
    with pytest.raises(InputError, match=r"kind=http is set, but .* of the bundled world"):
        asyncio.run(domain(url, "").probe())
    with pytest.raises(InputError, match="status 404"):
        asyncio.run(domain(url + "/wrong").probe())


def test_search_prints_hits(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", str(index), "mark11", "--topk", "2"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("1. ") and "Person 11  (p11)" in shown[0] and len(shown) == 2
    assert main(["search", str(index), "mark11", "--json"]) == 0
    (hit,) = json.loads(capsys.readouterr().out)
    assert {**hit, "score": 0} == {"score": 0, **rows(12)[11]}
    assert main(["search", str(index), "zzz"]) == 0
    assert capsys.readouterr().out == "nothing found\n"


def test_faults_are_one_line_and_exit_code_2(
    index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = write_corpus(tmp_path / "c.jsonl", rows(3))
    broken = write_corpus(tmp_path / "broken.jsonl", [*rows(2), {"id": "x"}])
    empty = write_corpus(tmp_path / "empty.jsonl", [])
    out = ["--out", str(tmp_path / "new")]
    cases: list[tuple[list[str], str]] = [
        (["index", str(broken), *out], "line 3: contents: missing"),
        (["index", str(empty), *out], "the corpus is empty"),
        (["index", str(tmp_path / "none"), *out], "No such file"),
        (["index", str(corpus), "--out", str(index)], "the index of another corpus"),
        (["index", str(corpus), *out, "--kind", "dense"], "--encoder: missing"),
        (["index", str(corpus), *out, "--encoder", "e"], "--encoder: is for --kind dense"),
        (["index", str(corpus), *out, "--factory", "ivf"], "--factory: is for --kind dense"),
        (["search", str(index), "x", "--encoder", "e"], "takes no encoder"),
        (
            ["index", str(corpus), *out, "--kind", "dense", "--encoder", "e", "--batch", "0"],
            "--batch=0",
        ),
        (["search", str(tmp_path / "none"), "x"], "no such folder"),
        (["search", str(tmp_path), "x"], "no index folder"),
        (["search", str(index), "x", "--topk", "0"], "--topk=0"),
        (["serve", str(tmp_path / "none")], "no such folder"),
        (["serve", str(index), "--port", "99999"], "cannot listen on 127.0.0.1:99999"),
        (["serve", str(index), "--host", "256.0.0.1"], "cannot listen"),
    ]
    for arguments, said in cases:
        assert main(arguments) == 2, arguments
        error = capsys.readouterr().err
        assert said in error and error.startswith("whale-searchqa: "), error
        assert error.count("\n") == 1, error
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("arguments", [["index"], ["index", "c"], ["nothing"], []])
def test_a_wrong_command_line_exits_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


@pytest.mark.parametrize("command", ["index", "search", "serve"])
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    shown = capsys.readouterr().out
    assert caught.value.code == 0 and f"  whale-searchqa {command} " in shown.split("examples:")[1]


def test_help_answers_without_heavy_imports() -> None:
    script = (
        "import sys\nfrom whale_searchqa.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'faiss', 'bm25s', 'starlette', 'transformers', 'scipy'}\n"
        "sys.exit(bool(heavy & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", script], stdout=subprocess.DEVNULL)
    assert ended.returncode == 0


def test_a_missing_extra_is_named(index: Path, tmp_path: Path) -> None:
    """With a path that holds no uvicorn: what a plain install sees."""
    script = (
        "import sys, importlib.util as util\n"
        "real = util.find_spec\n"
        "hidden = ('uvicorn', 'faiss')\n"
        "util.find_spec = lambda name, *rest: None if name in hidden else real(name, *rest)\n"
        "from whale_searchqa.cli import main\nsys.exit(main(sys.argv[1:]))"
    )
    dense = ["index", "c", "--out", str(tmp_path / "d"), "--kind", "dense", "--encoder", "e"]
    for arguments, extra in ((["serve", str(index)], "serve"), (dense, "dense")):
        ended = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            capture_output=True,
            text=True,
            env={**os.environ},
        )
        assert ended.returncode == 2
        assert f"pip install 'whale-searchqa[{extra}]'" in ended.stderr
        assert ended.stderr.count("\n") == 1

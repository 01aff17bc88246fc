"""Index folders: made, found again, broken off at the worst moments, refused when foreign."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict
from retrieval_kit import WordEncoder, rows, write_corpus

from whale_core.errors import InputError
from whale_searchqa.retrieval import dense
from whale_searchqa.retrieval.folder import Passages, read_manifest, working_folder
from whale_searchqa.retrieval.index import make_bm25, make_dense
from whale_searchqa.retrieval.open import open_index
from whale_searchqa.retrieval.passages import corpus_hash, read_passages

PASSAGES = 300
SHARD = 128  # two whole shards of vectors and a part of one


def quiet(doing: str, done: int, total: int) -> None:
    pass


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "c.jsonl", rows(PASSAGES))


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "c.jsonl", rows(60))


def child(script: str, *arguments: Path) -> int:
    """Run a script that kills itself somewhere, and return how it ended."""
    kit = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    prelude = "import os\nfrom pathlib import Path\ncorpus, out = map(Path, sys.argv[1:])\n"
    prelude += "def die(): os.kill(os.getpid(), 9)\ndef quiet(*_): pass\n"
    command = [sys.executable, "-c", kit + prelude + script, *map(str, arguments)]
    return subprocess.run(command, timeout=120).returncode


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


BM25_KILLED = {
    "while the corpus is read": """
from whale_searchqa.retrieval import folder, index
real = folder.read_passages
def read(path):
    for number, each in enumerate(real(path)):
        if number == 200: die()
        yield each
folder.read_passages = read
index.make_bm25(corpus, out, quiet)
""",
    "when half the scores are written": """
import bm25s
from whale_searchqa.retrieval import index
real = bm25s.BM25.save
def save(self, folder, **options):
    real(self, folder, **options)
    path = sorted(Path(folder).glob("*.npy"))[0]
    path.write_bytes(path.read_bytes()[:100])
    die()
bm25s.BM25.save = save
index.make_bm25(corpus, out, quiet)
""",
    "just before it gets its name": """
from whale_searchqa.retrieval import index
def finish(part, out): (part / "lock").unlink(); die()
index.finish = finish
index.make_bm25(corpus, out, quiet)
""",
}


@pytest.mark.parametrize("moment", BM25_KILLED)
def test_bm25_killed_is_never_taken_as_whole_and_begun_again(
    moment: str, corpus: Path, tmp_path: Path
) -> None:
    out = tmp_path / "index"
    assert child(BM25_KILLED[moment], corpus, out) == -signal.SIGKILL
    assert not out.exists() and (tmp_path / "index.part").is_dir()
    with pytest.raises(InputError, match="no such folder"):
        open_index(out)
    make_bm25(corpus, out, quiet)
    make_bm25(corpus, tmp_path / "unbroken", quiet)
    assert contents(out) == contents(tmp_path / "unbroken")
    assert not (tmp_path / "index.part").exists()


DENSE_KILLED = """
from retrieval_kit import WordEncoder
from whale_searchqa.retrieval import dense, index
dense.SHARD = 128
encoder = WordEncoder(before=lambda encoded: die() if encoded == 256 + 32 else None)
index.make_dense(corpus, out, encoder, "flat", 32, quiet)
"""


def test_dense_killed_goes_on_after_the_last_whole_shard(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "SHARD", SHARD)
    out = tmp_path / "index"
    assert child(DENSE_KILLED, corpus, out) == -signal.SIGKILL
    assert not out.exists()
    encoder = WordEncoder()
    manifest = make_dense(corpus, out, encoder, "flat", 32, quiet)
    assert encoder.encoded == PASSAGES - 2 * SHARD
    assert manifest == read_manifest(out) and manifest.passages == PASSAGES
    make_dense(corpus, tmp_path / "unbroken", WordEncoder(), "flat", 32, quiet)
    assert contents(out) == contents(tmp_path / "unbroken")


def test_dense_killed_when_the_vectors_are_made_encodes_nothing_again(
    few: Path, tmp_path: Path
) -> None:
    script = """
from retrieval_kit import WordEncoder
from whale_searchqa.retrieval import index
index.finish = lambda part, out: die()
index.make_dense(corpus, out, WordEncoder(), "flat", 32, quiet)
"""
    assert child(script, few, tmp_path / "index") == -signal.SIGKILL
    encoder = WordEncoder()
    make_dense(few, tmp_path / "index", encoder, "flat", 32, quiet)
    assert encoder.encoded == 0


def test_the_manifest_tells_what_was_indexed_and_how(few: Path, tmp_path: Path) -> None:
    told: list[str] = []
    make_bm25(few, tmp_path / "b", lambda doing, done, total: told.append(doing))
    said = json.loads((tmp_path / "b" / "manifest.json").read_text())
    assert said["kind"] == "bm25" and said["passages"] == 60 and said["complete"] is True
    assert said["corpus"] == corpus_hash(read_passages(few))
    assert said["settings"] == {"k1": 1.5, "b": 0.75, "method": "lucene", "words": 1}
    assert set(said["versions"]) == {"bm25s", "numpy"}
    assert "computing scores" in told
    made = make_dense(few, tmp_path / "d", WordEncoder(), "hnsw", 32, quiet)
    assert made.settings["factory"] == "hnsw" and made.settings["encoder"] == "words"
    assert {"faiss-cpu", "torch", "transformers"} <= set(made.versions)


def test_an_index_that_is_there_is_left_alone_and_another_is_refused(
    few: Path, tmp_path: Path
) -> None:
    out = tmp_path / "index"
    made = make_bm25(few, out, quiet)
    before = contents(out)
    assert asdict(make_bm25(few, out, quiet)) == asdict(made)
    with pytest.raises(InputError, match="another index is there"):
        make_dense(few, out, WordEncoder(), "flat", 32, quiet)
    other = write_corpus(tmp_path / "other.jsonl", rows(61))
    with pytest.raises(InputError, match="the index of another corpus is there"):
        make_bm25(other, out, quiet)
    assert contents(out) == before and not (tmp_path / "index.part").exists()


def test_what_was_begun_with_other_settings_is_not_gone_on_with(few: Path, tmp_path: Path) -> None:
    def stop(encoded: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_dense(few, tmp_path / "index", WordEncoder(before=stop), "flat", 32, quiet)
    with pytest.raises(InputError, match="begun with another settings"):
        make_dense(few, tmp_path / "index", WordEncoder(), "ivf", 32, quiet)
    with pytest.raises(InputError, match="begun with another corpus, passages"):
        other = write_corpus(tmp_path / "other.jsonl", rows(61))
        make_dense(other, tmp_path / "index", WordEncoder(), "flat", 32, quiet)
    make_dense(few, tmp_path / "index", WordEncoder(), "flat", 32, quiet)


def test_two_at_once_and_foreign_folders_are_refused(few: Path, tmp_path: Path) -> None:
    with (
        working_folder(tmp_path / "index"),
        pytest.raises(InputError, match="another process is making this index"),
    ):
        make_bm25(few, tmp_path / "index", quiet)
    for name in ("mine", "other.part"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.tex").write_text("years of work")
    for name in ("mine", "other"):
        with pytest.raises(InputError, match="is there and is no index"):
            make_bm25(few, tmp_path / name, quiet)
    (tmp_path / "file").write_text("")
    for name in ("file", "file/below"):
        with pytest.raises(InputError, match="file"):
            make_bm25(few, tmp_path / name, quiet)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "years of work"


def test_a_bad_corpus_leaves_no_index(tmp_path: Path) -> None:
    bad = write_corpus(tmp_path / "c.jsonl", [*rows(2), {"id": "x"}])
    with pytest.raises(InputError, match="line 3: contents: missing"):
        make_bm25(bad, tmp_path / "index", quiet)
    assert not (tmp_path / "index").exists()


def edit(**changes: Any) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        path = folder / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return apply


def cut(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-9])


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda folder: (folder / "manifest.json").unlink(), "no index folder"),
    "garbage": (lambda folder: (folder / "manifest.json").write_text("{"), "not the manifest"),
    "a list": (lambda folder: (folder / "manifest.json").write_text("[]"), "not the manifest"),
    "older format": (edit(format=0, other=1), "of format 0, this version reads 1"),
    "strange field": (edit(other=1), "not the manifest"),
    "wrong type": (edit(passages="many"), "not the manifest"),
    "unfinished": (edit(complete=False), "unfinished"),
    "other words": (edit(settings={"words": 0}), "made with other settings"),
    "other kind": (edit(kind="colbert"), "made with other settings"),
    "fewer passages": (edit(passages=59), "passages are missing"),
    "passages cut": (cut("passages.jsonl"), "passages are missing"),
    "starts cut": (cut("passages.starts.npy"), "damaged"),
    "starts empty": (lambda folder: (folder / "passages.starts.npy").write_text(""), "damaged"),
    "scores gone": (lambda folder: (folder / "bm25" / "data.csc.index.npy").unlink(), "damaged"),
    "scores cut": (cut("bm25/data.csc.index.npy"), "damaged"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_folder_that_cannot_be_used_is_one_line(name: str, few: Path, tmp_path: Path) -> None:
    damage, said = DAMAGE[name]
    make_bm25(few, tmp_path / "index", quiet)
    damage(tmp_path / "index")
    with pytest.raises(InputError, match=said) as caught:
        open_index(tmp_path / "index")
    assert "\n" not in str(caught.value) and str(tmp_path / "index") in str(caught.value)


def test_the_kind_asked_for_must_be_that_of_the_index(few: Path, tmp_path: Path) -> None:
    make_bm25(few, tmp_path / "index", quiet)
    with pytest.raises(InputError, match="an index of kind bm25, not dense"):
        open_index(tmp_path / "index", "dense")


def test_passages_come_back_from_the_mapped_file(few: Path, tmp_path: Path) -> None:
    make_bm25(few, tmp_path / "index", quiet)
    mapped = Passages(tmp_path / "index")
    wanted = list(read_passages(few))
    assert len(mapped) == 60 and list(mapped) == wanted and mapped[3:5] == wanted[3:5]
    with pytest.raises(IndexError):
        mapped[60]
    found = asyncio.run(open_index(tmp_path / "index").search(["mark41"], 1))
    assert [hit.passage for hit in found[0]] == [wanted[41]]

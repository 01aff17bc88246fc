from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from retrieval_kit import rows, write_corpus

from whale_core.errors import InputError
from whale_searchqa.retrieval.passages import Passage, corpus_hash, read_passages
from whale_searchqa.retrieval.words import words

GOOD = {"id": "a", "contents": '"T"\ntext'}


def test_a_corpus_is_read_in_order_plain_or_compressed(tmp_path: Path) -> None:
    plain = write_corpus(tmp_path / "c.jsonl", ["", *rows(3), "  "])
    packed = tmp_path / "c.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    read = list(read_passages(plain))
    assert read == list(read_passages(packed))
    assert [each.id for each in read] == ["p0", "p1", "p2"]
    assert read[1].title == "Person 1" and read[1].text.startswith("Person 1 was a sailor")


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"contents": '"T"\ntext'}, "line 2: id: missing"),
        ({"id": "b"}, "line 2: contents: missing"),
        ({"id": 7, "contents": '"T"\ntext'}, "line 2: id: must be text"),
        ({"id": "b", "contents": " "}, "line 2: contents: must be text"),
        ({"id": "b", "contents": "T\ntext"}, "line 2: contents: its first line"),
        ({"id": "b", "contents": '"T"'}, "line 2: contents: no text"),
        ({"id": "a", "contents": '"U"\nother'}, "line 2: id: 'a' was already"),
        ({"id": "b", "contents": '"T"\n\ud800'}, "line 2: contents: holds half"),
        ("{", "line 2: not JSON"),
        ("[" * 100_000, "line 2: not JSON"),
        ("[1]", "line 2: not a JSON object"),
        ('"' + "x" * (1 << 20) + '"', "line 2: longer than"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, second: Any, said: str) -> None:
    path = write_corpus(tmp_path / "c.jsonl", [GOOD, second])
    with pytest.raises(InputError, match=r"^[^\n]*$") as caught:
        list(read_passages(path))
    assert str(caught.value).startswith(f"{path}: {said}")


def test_a_corpus_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.gz").write_bytes(b"not gzip")
    half = gzip.compress(b"".join(Passage(f"{n}", "T", "x" * 99).line() for n in range(99)))
    (tmp_path / "half.gz").write_bytes(half[: len(half) // 2])
    (tmp_path / "latin.jsonl").write_bytes(b'{"id": "\xe9"}')
    write_corpus(tmp_path / "empty.jsonl", ["", " "])
    faults = {
        "none.jsonl": "No such file",
        "": "a folder",
        "text.gz": "a corpus is",
        "half.gz": "a corpus is",
        "latin.jsonl": "line 1: not UTF-8",
        "empty.jsonl": "the corpus is empty",
    }
    for name, said in faults.items():
        with pytest.raises(InputError, match=said) as caught:
            list(read_passages(tmp_path / name))
        assert "\n" not in str(caught.value) and name in str(caught.value)


def test_the_hash_names_the_passages_in_order_not_the_file(tmp_path: Path) -> None:
    spaced = '{"contents":  "\\"T\\"\\ntext", "more": 1, "id": "a"}'
    one = corpus_hash(read_passages(write_corpus(tmp_path / "1", [GOOD, rows(1)[0]])))
    assert one == corpus_hash(read_passages(write_corpus(tmp_path / "2", [spaced, rows(1)[0]])))
    assert one != corpus_hash(read_passages(write_corpus(tmp_path / "3", [rows(1)[0], GOOD])))


def test_words_lose_case_accents_and_function_words() -> None:
    assert words("The Carl Barât of 1997, Straße!") == ["carl", "barat", "1997", "straße"]
    assert words("ﬁn Ⅳ") == words("fin IV")
    assert words("of the") == []

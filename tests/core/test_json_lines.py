"""The one reader of JSON lines: streams, names file and line, tells of contradictions."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import pytest

from whale_core.errors import InputError
from whale_core.json_lines import LONGEST_LINE, Repeats, read_objects

NEEDED = "needed is this"


def test_lines_are_numbered_plain_or_compressed_with_a_mark_or_without(tmp_path: Path) -> None:
    text = b'\xef\xbb\xbf{"a": 1}\r\n\n  \n{"a": "\xc3\xa9"}'
    (tmp_path / "a.jsonl").write_bytes(text)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text))
    for name in ("a.jsonl", "a.jsonl.gz"):
        assert list(read_objects(tmp_path / name, NEEDED)) == [(1, {"a": 1}), (4, {"a": "é"})]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "line 2: not JSON"),
        (b"[" * 200_000, "line 2: not JSON"),
        (b"[1]", "line 2: not a JSON object; needed is this"),
        (b'{"a": ' + b"9" * 5000 + b"}", "line 2: not JSON"),
        (b'{"a": "\xe9"}', "line 2: not UTF-8 text"),
        (b'"' + b"x" * LONGEST_LINE, "line 2: longer than"),
    ],
)
def test_a_bad_line_is_named(line: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{}\n" + line)
    with pytest.raises(InputError) as caught:
        list(read_objects(path, NEEDED))
    assert str(caught.value).startswith(f"{path}: {said}") and "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"{}\n" * 99_999)[:-60])
    (tmp_path / "b.gz").write_bytes(b"not gzip")
    for name, said in (("none", "No such file"), ("", "a folder"), ("a.gz", "line"), ("b.gz", "")):
        with pytest.raises(InputError) as caught:
            list(read_objects(tmp_path / name, NEEDED))
        assert str(caught.value).startswith(str(tmp_path / name)) and NEEDED in str(caught.value)
        assert said in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(InputError, match="null"):
        list(read_objects(Path("a\0b"), NEEDED))


def test_one_line_is_in_memory_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "large.jsonl"
    with path.open("wb") as file:
        for _ in range(200):
            file.write(b'{"a": "' + b"x" * 100_000 + b'"}\n')
    tracemalloc.start()
    assert sum(len(row["a"]) for _, row in read_objects(path, NEEDED)) == 20_000_000
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 2_000_000


def test_contradictions_are_counted_and_the_first_shown() -> None:
    repeats = Repeats()
    repeats.add(2, 1, same=True)
    assert (repeats.rows, repeats.note("f", "line", "the first counts")) == (1, None)
    for row in (5, 7, 8, 9):
        repeats.add(row, 3, same=False)
    assert repeats.note("f", "line", "the first counts") == (
        "f: 4 repeated questions with another answer than before (line 5 after 3, 7 after 3, "
        "8 after 3, …); the first counts"
    )

"""Puzzle files, damaged: a correct load or one line with file, line and field; no good row lost."""

from __future__ import annotations

import bz2
import gzip
import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import zstandard
from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st

from whale_chess.puzzles import Loaded, Puzzle, bundled, load
from whale_chess.rows import LONGEST_LINE
from whale_core.errors import InputError

ROWS = 12
HEADER = b"PuzzleId,FEN,Moves,Rating,RatingDeviation,Popularity,NbPlays,Themes,GameUrl,OpeningTags"
COLUMNS = HEADER.decode().split(",")


def good_lines() -> list[bytes]:
    packed = bundled("puzzles").read_bytes()
    text = zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    header, *lines = text.splitlines()
    assert header == HEADER
    return lines[:ROWS]


LINES = good_lines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("puzzles")


@pytest.fixture(scope="module")
def expected(folder: Path) -> list[Puzzle]:
    """The puzzle of each good line."""
    loaded = attempt(folder, b"\n".join([HEADER, *LINES, b""]))
    assert isinstance(loaded, Loaded) and not loaded.bad.count
    return list(loaded.puzzles)


def attempt(
    folder: Path, data: bytes, *, skip: bool = False, name: str = "puzzles.csv"
) -> Loaded | str:
    """Return what was loaded, or the message: one line that names the file."""
    path = folder / name
    path.write_bytes(data)
    try:
        return load(path, skip_bad_rows=skip)
    except InputError as error:
        message = str(error)
        assert "\n" not in message and str(path) in message and len(message) < 2000
        return message


@frozen
class File:
    """A file's lines, and for each of them the number of the good line that it still is."""

    header: bytes
    lines: tuple[bytes, ...]
    intact: tuple[int | None, ...]

    def data(self, end: bytes = b"\n") -> bytes:
        return end.join([self.header, *self.lines, b""])


WHOLE = File(HEADER, tuple(LINES), tuple(range(ROWS)))


def check(folder: Path, file: File, data: bytes, expected: list[Puzzle]) -> None:
    """Hold both ways of loading against what is known of the damage."""
    rows = sum(bool(line) for line in file.lines)
    spoilt = {index + 2 for index, known in enumerate(file.intact) if known is None}
    kept = [expected[known] for known in file.intact if known is not None]
    skipped = attempt(folder, data, skip=True)
    assert isinstance(skipped, Loaded), skipped
    assert skipped.rows == rows == len(skipped.puzzles) + skipped.bad.count
    found = list(skipped.puzzles)
    for puzzle in kept:  # every good row is there, in order
        while found and found[0] != puzzle:
            found.pop(0)
        assert found, f"lost: {puzzle}"
    strict = attempt(folder, data)
    if isinstance(strict, Loaded):
        assert strict == skipped and not skipped.bad.count
        return
    assert f"{skipped.bad.count:,} of {rows:,} rows are bad" in strict
    named = re.findall(r"line (\d+), (\w+): ", strict)
    assert named and {int(line) for line, _ in named} <= spoilt
    assert {field for _, field in named} <= set(COLUMNS)
    assert skipped.note(folder / "puzzles.csv") is not None


# --- damage to single rows ------------------------------------------------------------------------

cell = st.one_of(
    st.binary(max_size=12),
    st.sampled_from(
        [
            b"",
            b'"',
            b'"""',
            b'a"b',
            b'"a"b',
            b",",
            b"\0",
            b"\xff\xfe",
            b"\xed\xa0\x80",
            b"0000 0000",
            b"e2e4",
            b"e2e4 e7e5 e1e8",
            b"a7a8x b2b3",
            b"P@e4 P@e5",
            b"8/8/8/8/8/8/8/8 w - - 0 1",
            b"rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 99999999999999999999999",
            b"9/8/8/8/8/8/8/8 w - - 0 1",
            b"k7/8/8/8/8/8/8/7K x - - 0 1",
            b"1e400",
            b"-5",
            b"9" * 5000,
            b"x" * (LONGEST_LINE + 5),
        ]
    ),
).map(lambda value: value.replace(b"\n", b"").replace(b"\r", b""))


@st.composite
def row_damage(draw: st.DrawFn) -> File:
    """A file in which up to four rows were changed, cut, doubled, emptied or given other fields."""
    lines: list[bytes] = list(LINES)
    intact: list[int | None] = list(range(ROWS))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(lines) - 1))
        kind = draw(st.sampled_from(["cell", "flip", "cut", "double", "empty", "comma", "swap"]))
        cells = lines[at].split(b",")
        if kind == "double":
            lines.insert(at, lines[at])
            intact.insert(at, intact[at])
            continue
        if kind == "cell":
            cells[draw(st.integers(0, len(cells) - 1))] = draw(cell)
            changed = b",".join(cells)
        elif kind == "flip":
            place = draw(st.integers(0, max(0, len(lines[at]) - 1)))
            value = draw(st.integers(0, 255).filter(lambda byte: byte not in b"\r\n"))
            changed = lines[at][:place] + bytes([value]) + lines[at][place + 1 :]
        elif kind == "cut":
            changed = lines[at][: draw(st.integers(0, len(lines[at])))]
        elif kind == "empty":
            changed = b""
        elif kind == "comma":
            place = draw(st.integers(0, len(lines[at])))
            changed = lines[at][:place] + b"," + lines[at][place:]
        else:
            one, other = draw(st.integers(0, len(cells) - 1)), draw(st.integers(0, len(cells) - 1))
            cells[one], cells[other] = cells[other], cells[one]
            changed = b",".join(cells)
        if changed != lines[at]:
            lines[at], intact[at] = changed, None
    return File(HEADER, tuple(lines), tuple(intact))


@given(file=row_damage(), end=st.sampled_from([b"\n", b"\r\n", b"\r"]), bom=st.booleans())
def test_a_damaged_row_spoils_itself_alone(
    folder: Path, expected: list[Puzzle], file: File, end: bytes, bom: bool
) -> None:
    data = (b"\xef\xbb\xbf" if bom else b"") + file.data(end)
    check(folder, file, data, expected)


@given(
    places=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6),
)
def test_flipped_bytes_anywhere(
    folder: Path, expected: list[Puzzle], places: list[tuple[int, int]]
) -> None:
    """Line ends too: a lost one joins two rows, a new one splits a row."""
    data = bytearray(WHOLE.data())
    touched: set[int] = set()
    for place, value in places:
        at = place % len(data)
        line = WHOLE.data()[:at].count(b"\n")
        if data[at] != value:
            touched |= {line, line + 1} if WHOLE.data()[at] == 10 else {line}
        data[at] = value
    skipped = attempt(folder, bytes(data), skip=True)
    if isinstance(skipped, str):
        assert 0 in touched and "line 1" in skipped  # only the header stops the reading
        return
    kept = {expected[row - 1].id for row in range(1, ROWS + 1) if row not in touched}
    if 0 not in touched:
        assert kept <= {puzzle.id for puzzle in skipped.puzzles}


def test_a_row_that_is_cut_at_a_move_is_not_a_shorter_puzzle(folder: Path) -> None:
    long = b"x,3r2k1/p4ppp/8/8/4Q3/8/5PPP/4R1K1 b - - 0 1,a7a6 e4e8 d8e8 e1e8,1,80,90,10,mateIn2,,"
    whole = attempt(folder, b"\n".join([HEADER, long]))
    assert isinstance(whole, Loaded) and whole.puzzles[0].solver_moves == 2
    cut = long[: long.index(b" d8e8")]
    message = attempt(folder, b"\n".join([HEADER, cut]))
    assert isinstance(message, str) and "line 2, Rating: missing" in message


# --- columns --------------------------------------------------------------------------------------


@given(st.data())
def test_columns_dropped_renamed_doubled_and_moved(
    folder: Path, expected: list[Puzzle], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(10)))
    kept = order[: data.draw(st.integers(0, 10))]
    names = [COLUMNS[index] for index in kept]
    if names and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(names) - 1))
        names[at] = data.draw(st.sampled_from([*COLUMNS, "", "fen", " FEN", "é"]))
    lines = [[line.decode().split(",")[index] for index in kept] for line in LINES]
    text = "\n".join(",".join(cells) for cells in [names, *lines]) + "\n"
    loaded = attempt(folder, text.encode())
    missing = [name for name in ("PuzzleId", "FEN", "Moves") if name not in names]
    used = ("PuzzleId", "FEN", "Moves", "Rating", "Themes", "GameUrl")
    double = [name for name in used if names.count(name) > 1]
    if missing:
        assert isinstance(loaded, str) and "line 1" in loaded and missing[0] in loaded
    elif double:
        assert isinstance(loaded, str) and "line 1" in loaded and double[0] in loaded
    elif all(name == COLUMNS[index] for name, index in zip(names, kept, strict=True)):
        assert isinstance(loaded, Loaded)
        assert [(p.id, p.fen, p.moves) for p in loaded.puzzles] == [
            (p.id, p.fen, p.moves) for p in expected
        ]
    else:  # a column under another's name: read as it says, or refused
        assert isinstance(loaded, Loaded) or "line " in loaded


# --- packed files ---------------------------------------------------------------------------------

PLAIN = WHOLE.data()
PACKED = zstandard.ZstdCompressor(write_checksum=True).compress(PLAIN)


@given(st.lists(st.integers(0, len(PLAIN)), max_size=5), st.booleans())
def test_frames_one_after_the_other(
    folder: Path, expected: list[Puzzle], cuts: list[int], skippable: bool
) -> None:
    marks = [0, *sorted(cuts), len(PLAIN)]
    frames = [zstandard.compress(PLAIN[a:b]) for a, b in pairwise(marks)]
    between = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc" if skippable else b""  # a skippable frame
    loaded = attempt(folder, between.join(frames), name="puzzles.csv.zst")
    assert isinstance(loaded, Loaded) and list(loaded.puzzles) == expected
    named_csv = attempt(folder, frames[0] + b"".join(frames[1:]))
    assert isinstance(named_csv, Loaded) and list(named_csv.puzzles) == expected


@given(st.integers(1, len(PACKED) - 1), st.booleans(), st.booleans())
def test_an_unfinished_frame_is_never_a_shorter_file(
    folder: Path, length: int, skip: bool, second: bool
) -> None:
    data = (PACKED if second else b"") + PACKED[:length]
    message = attempt(folder, data, skip=skip, name="puzzles.csv.zst")
    assert isinstance(message, str) and "incomplete" in message and "line " in message


@given(st.integers(0, len(PACKED) - 1), st.integers(1, 255), st.booleans())
def test_a_flipped_byte_in_a_packed_file_is_found(
    folder: Path, expected: list[Puzzle], at: int, change: int, skip: bool
) -> None:
    data = bytearray(PACKED)
    data[at] ^= change
    loaded = attempt(folder, bytes(data), skip=skip, name="puzzles.csv.zst")
    if isinstance(loaded, Loaded):  # a byte that carries nothing
        assert list(loaded.puzzles) == expected
    else:
        assert "line " in loaded


@given(st.binary(max_size=400))
def test_garbage_after_a_frame_and_alone(folder: Path, garbage: bytes) -> None:
    for data in (garbage, PACKED + garbage):
        loaded = attempt(folder, data, name="puzzles.csv.zst")
        assert isinstance(loaded, str) or data == PACKED


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.csv", b"", "line 1: the file is empty"),
        ("a.csv.zst", b"", "line 1: the file is empty"),
        ("a.csv.zst", zstandard.compress(b""), "line 1: the file is empty"),
        ("a.csv", b"\n\n", "line 1 names no column"),
        ("a.csv.zst", PLAIN, "not a readable .zst file"),
        ("a.csv.zst", gzip.compress(PLAIN), "gzip"),
        ("a.csv", gzip.compress(PLAIN), "gzip"),
        ("a.csv.gz", gzip.compress(PLAIN), "gzip"),
        ("a.csv.bz2", bz2.compress(PLAIN), "line 1 names no column"),
        ("a.csv", PLAIN.decode().encode("utf-16"), "line 1 names no column"),
        ("a.csv", PLAIN.replace(b",", b"\t"), "line 1 names no column PuzzleId, FEN, Moves"),
        ("a.csv", b"\0" * 100_000, "line 1 names no column"),
        ("a.csv", b"x" * 3_000_000, "line 1 names no column"),
    ],
)
def test_other_files(folder: Path, name: str, data: bytes, said: str) -> None:
    message = attempt(folder, data, name=name)
    assert isinstance(message, str) and said in message


def test_a_header_alone_holds_no_puzzles(folder: Path) -> None:
    assert attempt(folder, HEADER) == attempt(folder, HEADER + b"\r\n")
    loaded = attempt(folder, HEADER)
    assert isinstance(loaded, Loaded) and loaded.rows == 0


def test_paths_that_are_no_files(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    said = {
        tmp_path: "Is a directory",
        tmp_path / "pipe": "not a regular file",  # and nobody waits for a writer
        Path("/dev/zero"): "not a regular file",
        Path("/proc/self/mem"): "Input/output error",  # opens, and fails when it is read
        tmp_path / "loop": "symbolic links",
        tmp_path / "gone": "No such file",
        tmp_path / "nul\0": "null byte",
        tmp_path / ("x" * 300): "File name too long",
        tmp_path / "a.csv" / "b.csv": "No such file",
        Path("~nobody-of-this-name/x.csv"): "No such file",
    }
    for path, reason in said.items():
        with pytest.raises(InputError) as caught:
            load(path)
        message = str(caught.value)
        assert reason in message and str(path) in message and "\n" not in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_bytes(PLAIN)
    (tmp_path / "secret.csv").chmod(0)
    with pytest.raises(InputError, match="Permission denied"):
        load(tmp_path / "secret.csv")


def test_a_file_that_is_refused_by_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.csv"
    path.write_bytes(PLAIN)

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"secret\.csv: Permission denied"):
        load(path)


def test_doubled_ids_and_positions_are_loaded_as_they_are(
    folder: Path, expected: list[Puzzle]
) -> None:
    renamed = [LINES[1].replace(expected[1].id.encode(), expected[0].id.encode()), LINES[0]]
    loaded = attempt(folder, b"\n".join([HEADER, *LINES, *renamed]))
    assert isinstance(loaded, Loaded) and len(loaded.puzzles) == ROWS + 2
    assert loaded.puzzles[ROWS] == evolve(expected[1], id=expected[0].id)


def test_all_rows_of_real_puzzles_survive_a_bad_neighbour(sample_data: Path, folder: Path) -> None:
    lines = (sample_data / "lichess_puzzles.csv").read_bytes().splitlines()
    spoilt = [*lines[:100], b'x,"8/8,', *lines[100:]]
    loaded = attempt(folder, b"\n".join(spoilt), skip=True)
    assert isinstance(loaded, Loaded) and (len(loaded.puzzles), loaded.bad.count) == (500, 1)
    assert "line 101, FEN: a quoted field is not closed" in str(loaded.note(folder))

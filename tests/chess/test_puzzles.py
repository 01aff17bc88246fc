from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from whale_chess.config import Config
from whale_chess.domain import ChessDomain
from whale_chess.puzzles import Puzzle, load
from whale_chess.splits import ORDER, share_out
from whale_core.errors import InputError
from whale_core.plugins import Setup

ONE = "6k1/p4ppp/8/8/8/8/5PPP/4R1K1 b - - 0 1,a7a6 e1e8"
GOOD = f"00001,{ONE},900,80,90,10,mateIn1,https://lichess.org/abcdefgh/black#20,"
TWO = "3r2k1/p4ppp/8/8/4Q3/8/5PPP/4R1K1 b - - 0 1,a7a6 e4e8 d8e8 e1e8"
LONG = f"00002,{TWO},1200,80,90,10,mateIn2,https://lichess.org/abcdefgh#30,"
Write = Callable[..., Path]


def test_a_lichess_row_is_read_as_it_is_meant(csv_file: Write):
    (puzzle, long) = load(csv_file(GOOD, LONG)).puzzles
    assert puzzle.key == "6k1/5ppp/p7/8/8/8/5PPP/4R1K1 w"  # after the opponent's first move
    assert (puzzle.solver_moves, long.solver_moves) == (1, 2)
    assert puzzle.rating == 900 and puzzle.game == long.game == "abcdefgh"
    assert puzzle.other_forcing == 0 and long.other_forcing == 1  # Qxh7+


def test_zst_and_plain_files_hold_the_same(csv_file: Write, tmp_path: Path):
    plain = csv_file(GOOD, LONG)
    packed = tmp_path / "puzzles.csv.zst"
    frames = [
        zstandard.compress(half) for half in (plain.read_bytes()[:90], plain.read_bytes()[90:])
    ]
    packed.write_bytes(b"".join(frames))  # Lichess files consist of several frames
    assert load(packed) == load(plain)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("x,6k1/8/8 b - - 0 1,a7a6 e1e8,,,,,,,", "line 3, FEN: "),
        ("x,8/8/8/8/8/8/8/8 w - - 0 1,a7a6 e1e8,,,,,,,", "line 3, FEN: "),
        ("x,,a7a6 e1e8,,,,,,,", "line 3, FEN: empty"),
        ("x", "line 3, FEN: missing, the row has 1 of 10 fields"),
        (f"x,{ONE.split(',')[0]},,,,,,,,", "line 3, Moves: empty"),
        (f"x,{ONE.split(',')[0]},a7a6,,,,,,,", "line 3, Moves: 1 moves"),
        (f"x,{ONE.split(',')[0]},a7a5 e1e9,,,,,,,", "line 3, Moves: move 2, 'e1e9', is not legal"),
        (f"x,{TWO} e8e1,,,,,,,", "line 3, Moves: 5 moves"),
        ("x," + TWO.replace("d8e8", "d8d7") + ",,,,,,,", "line 3, Moves: move 3, 'd8d7', is not"),
        (f"x,{ONE},high,,,,,,", "line 3, Rating: 'high'"),
    ],
)
def test_a_bad_row_is_named_by_line_field_and_reason(csv_file: Write, row: str, reason: str):
    path = csv_file(GOOD, row)
    with pytest.raises(InputError) as caught:
        load(path)
    message = str(caught.value)
    assert reason in message and str(path) in message and "\n" not in message
    assert "1 of 2 rows are bad" in message and "domain.skip_bad_rows=true" in message
    left = load(path, skip_bad_rows=True)
    assert len(left.puzzles) == left.bad.count == 1 and left.rows == 2


def test_five_bad_rows_are_shown_and_all_are_counted(csv_file: Write):
    with pytest.raises(InputError) as caught:
        load(csv_file(*["x"] * 7))
    assert "7 of 7 rows are bad" in str(caught.value) and str(caught.value).count("line ") == 5
    assert "rows are bad (FEN 7): line 2, FEN: " in str(caught.value)


def test_files_that_are_not_puzzle_files(csv_file: Write, tmp_path: Path):
    with pytest.raises(InputError, match="No such file"):
        load(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="directory"):
        load(tmp_path)
    (tmp_path / "bad.csv.zst").write_bytes(b"not zstandard")
    with pytest.raises(InputError, match="not a readable"):
        load(tmp_path / "bad.csv.zst")
    (tmp_path / "latin.csv").write_bytes(b"PuzzleId,FEN,Moves\n\xff\n")
    with pytest.raises(InputError, match="line 2, PuzzleId: not UTF-8 text"):
        load(tmp_path / "latin.csv")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="no column PuzzleId, FEN, Moves"):
        load(tmp_path / "other.csv")


def make(number: int, game: int, key: int | None = None) -> Puzzle:
    return Puzzle(f"p{number}", "", ("a", "b"), None, "", f"g{game}", f"k{key or number}")


SIZES = {"weight": 20, "harness": 10, "selection": 9, "test": 8}


@given(st.permutations(range(90)), st.integers(0, 3))
def test_splits_are_disjoint_full_and_independent_of_row_order(order: list[int], seed: int):
    rows = [make(n, game=n // 2 if n < 40 else n, key=n % 80 + 1) for n in order]
    got = share_out(rows, SIZES, seed, "file").puzzles
    assert {name: len(found) for name, found in got.items()} == SIZES
    for one in ORDER:
        for two in ORDER:
            if one != two:
                assert not {p.game for p in got[one]} & {p.game for p in got[two]}
                assert not {p.key for p in got[one]} & {p.key for p in got[two]}
    keys = [p.key for found in got.values() for p in found]
    assert len(keys) == len(set(keys))
    again = share_out(sorted(rows, key=lambda p: p.id), SIZES, seed, "file").puzzles
    assert again == got


def test_the_test_split_does_not_depend_on_the_other_sizes_but_on_the_seed():
    rows = [make(number, game=number) for number in range(100)]
    small = share_out(rows, SIZES, 1, "file").puzzles["test"]
    assert share_out(rows, SIZES | {"weight": 60}, 1, "file").puzzles["test"] == small
    assert share_out(rows, SIZES, 2, "file").puzzles["test"] != small


def test_too_few_puzzles_shrink_all_splits_with_a_note():
    rows = [make(number, game=number) for number in range(100)]
    asked = {"weight": 160, "harness": 20, "selection": 10, "test": 10}
    with pytest.raises(InputError, match=r"100 usable puzzles are too few.*8"):
        share_out(rows, asked, 1, "file")
    asked = {"weight": 120, "harness": 30, "selection": 26, "test": 24}
    shared = share_out(rows, asked, 1, "file")
    assert {n: len(p) for n, p in shared.puzzles.items()} == {n: s // 2 for n, s in asked.items()}
    (note,) = shared.notes
    assert "weight 60 of 120" in note and "test 12 of 24" in note
    assert share_out(rows, SIZES, 1, "file").notes == ()
    doubled = share_out([*rows, *rows[:7]], SIZES, 1, "file")
    assert doubled.notes == ("file: 7 puzzles repeat a position of another one and were left out",)
    assert doubled.puzzles == share_out(rows, SIZES, 1, "file").puzzles


def test_real_puzzles_load_and_every_line_can_be_played(sample_data: Path):
    path = sample_data / "lichess_puzzles.csv"
    domain = ChessDomain(Config(puzzles=str(path)), Setup(seed=1))
    assert len(load(path).puzzles) == 500
    (note,) = domain.notes
    assert "weight" in note and all(len(domain.split(name)) >= 40 for name in ORDER)
    lengths = {
        len(example.content["moves"]) // 2 for name in ORDER for example in domain.split(name)
    }
    assert {1, 2, 3} <= lengths  # any length is the default for a file
    for example in domain.split("test"):
        environment = domain.environment(example)
        for move in example.content["moves"][1::2]:
            status = environment.call("move", {"move": move})["status"]
        assert status == "solved"
    short = Config(puzzles=str(path), max_solver_moves=1, weight=16, harness=8, selection=8, test=8)
    kept = ChessDomain(short, Setup(seed=1)).split("test")
    assert {len(example.content["moves"]) for example in kept} == {2}


FILES = "abcd"


def distinct_rows() -> list[str]:
    """Four puzzles of four positions: the white king stands on another file of the first rank."""
    return [
        GOOD.replace("4R1K1", rank).replace("00001", file).replace("abcdefgh", f"game000{file}")
        for file, rank in zip(FILES, ("K3R3", "1K2R3", "2K1R3", "3KR3"), strict=True)
    ]


def test_skipped_rows_are_noted(csv_file: Write):
    path = csv_file(*distinct_rows(), "broken", GOOD.replace("a7a6 e1e8", "a7a6"))
    config = Config(puzzles=str(path), weight=1, harness=1, selection=1, test=1, skip_bad_rows=True)
    domain = ChessDomain(config, Setup(seed=1))
    assert domain.notes == (
        f"{path}: 2 of 6 rows were skipped (FEN 1, Moves 1): "
        "line 6, FEN: missing, the row has 1 of 10 fields; "
        "line 7, Moves: 1 moves, but opponent and solver move in turn",
    )
    with pytest.raises(InputError, match="2 of 6 rows are bad"):
        ChessDomain(evolve(config, skip_bad_rows=False), Setup(seed=1))


def test_moves_are_kept_as_the_environment_writes_them(csv_file: Write):
    castling = "x,4k3/p7/8/8/8/8/8/4K2R b K - 0 1,a7a6 e1h1,,,,,,,"
    (puzzle,) = load(csv_file(castling)).puzzles
    assert puzzle.moves == ("a7a6", "e1g1")
    with pytest.raises(InputError, match="line 2, Moves: move 2, '0000', is not legal"):
        load(csv_file(castling.replace("e1h1", "0000")))


def test_settings_that_contradict_each_other():
    with pytest.raises(InputError, match="both set"):
        ChessDomain(Config(puzzles="x.csv", tuning=True), Setup(seed=1))
    with pytest.raises(ValueError, match="weight"):
        Config(weight=0)

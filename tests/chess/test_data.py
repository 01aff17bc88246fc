from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import chess
import pytest
from attrs import evolve

from whale_chess.config import Config
from whale_chess.domain import ChessDomain
from whale_chess.puzzles import Puzzle, bundled, load
from whale_core.keys import generator
from whale_core.plugins import Setup

ROOT = Path(__file__).parents[2]
CHECKED = 60  # of each length and set: a full search takes milliseconds to half a second


@pytest.fixture(scope="module")
def sets() -> dict[str, tuple[Puzzle, ...]]:
    return {name: load(bundled(name)).puzzles for name in ("puzzles", "tuning")}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = ROOT / "whale_domains/chess/tools/generate_puzzles.py"
    spec = importlib.util.spec_from_file_location("generate_puzzles", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_files_are_those_of_the_manifest(sets: dict[str, tuple[Puzzle, ...]]):
    manifest = json.loads(bundled("puzzles").with_name("manifest.json").read_text())
    assert set(manifest) == {"puzzles.csv.zst", "tuning.csv.zst"}
    assert len({entry["seed"] for entry in manifest.values()}) == 2
    for name, puzzles in sets.items():
        entry = manifest[f"{name}.csv.zst"]
        data = bundled(name).read_bytes()
        assert hashlib.sha256(data).hexdigest() == entry["sha256"] and len(data) < 500_000
        lengths = Counter(puzzle.solver_moves for puzzle in puzzles)
        assert lengths == {1: entry["mates_in_one"], 2: entry["mates_in_two"]}


def test_the_sets_are_large_enough_and_share_no_position(sets: dict[str, tuple[Puzzle, ...]]):
    sample, tuning = ({puzzle.key for puzzle in sets[name]} for name in ("puzzles", "tuning"))
    assert len(sample) == len(sets["puzzles"]) >= 3000 and len(tuning) >= 800
    assert not sample & tuning
    for puzzles in sets.values():
        assert len({puzzle.game for puzzle in puzzles}) == len(puzzles)
        assert len({puzzle.id for puzzle in puzzles}) == len(puzzles)


def subset(puzzles: tuple[Puzzle, ...], solver_moves: int, count: int) -> list[Puzzle]:
    of_length = [puzzle for puzzle in puzzles if puzzle.solver_moves == solver_moves]
    chosen = generator("chess data test", solver_moves).choice(len(of_length), count, replace=False)
    return [of_length[index] for index in chosen]


def mating(board: chess.Board) -> list[str]:
    found = []
    for move in board.legal_moves:
        board.push(move)
        if board.is_checkmate():
            found.append(move.uci())
        board.pop()
    return found


def start(puzzle: Puzzle) -> chess.Board:
    board = chess.Board(puzzle.fen)
    board.push_uci(puzzle.moves[0])
    return board


@pytest.mark.parametrize("name", ["puzzles", "tuning"])
def test_mates_in_one_have_one_solution_and_three_other_forcing_moves(
    name: str, sets: dict[str, tuple[Puzzle, ...]]
):
    for puzzle in subset(sets[name], 1, CHECKED):
        assert mating(start(puzzle)) == [puzzle.moves[1]]
        assert puzzle.other_forcing >= 3


def forced_within_two(board: chess.Board, move: chess.Move) -> bool:
    board.push(move)
    replies = list(board.legal_moves)
    forced = board.is_checkmate() or bool(replies)
    for reply in replies:
        board.push(reply)
        forced = forced and bool(mating(board))
        board.pop()
        if not forced:
            break
    board.pop()
    return forced


def test_mates_in_two_have_one_first_move_and_one_finish(sets: dict[str, tuple[Puzzle, ...]]):
    for puzzle in subset(sets["puzzles"], 2, 8):
        board = start(puzzle)
        first = [m.uci() for m in board.legal_moves if forced_within_two(board, m)]
        assert first == [puzzle.moves[1]]
        assert puzzle.other_forcing >= 3
        board.push_uci(puzzle.moves[1])
        board.push_uci(puzzle.moves[2])
        assert mating(board) == [puzzle.moves[3]]


def test_the_generator_makes_the_bundled_rows_again(
    tool: ModuleType, sets: dict[str, tuple[Puzzle, ...]]
):
    manifest = json.loads(bundled("puzzles").with_name("manifest.json").read_text())
    seed = manifest["puzzles.csv.zst"]["seed"]
    again = tool.puzzles(seed, {1: 9, 2: 2}, set())
    for _, made, bundled_puzzle in zip(range(6), again, sets["puzzles"], strict=False):
        assert (made.fen, made.moves) == (bundled_puzzle.fen, bundled_puzzle.moves)
        assert made.row(seed)["PuzzleId"] == bundled_puzzle.id


def test_excluded_positions_are_left_out(tool: ModuleType):
    first = next(tool.puzzles(99, {1: 1, 2: 0}, set()))
    other = next(tool.puzzles(99, {1: 1, 2: 0}, {first.key}))
    assert other.key != first.key and other.game > first.game


def test_the_default_splits_are_mates_in_one(domain: ChessDomain):
    assert domain.notes == ()
    for name in ("weight", "harness", "selection", "test"):
        assert {len(example.content["moves"]) for example in domain.split(name)} == {2}


def test_filters_by_length_and_forcing_moves():
    config = Config(
        tuning=True, max_solver_moves=0, min_forcing=6, weight=64, harness=16, selection=16, test=16
    )
    domain = ChessDomain(config, Setup(seed=1))
    examples = [e for name in ("weight", "harness") for e in domain.split(name)]
    assert {len(example.content["moves"]) for example in examples} == {2, 4}
    for example in examples:
        moves = domain.environment(example).view()["legal_moves"]
        assert sum("x" in m["san"] or m["san"][-1] in "+#" for m in moves) >= 7


def test_example_ids_tell_nothing_of_the_solution(domain: ChessDomain):
    example = domain.split("test")[0]
    other = load(bundled("puzzles")).puzzles[0]
    assert other.example().id == evolve(other, moves=("a2a3", "a7a6"), id="x").example().id
    assert set(example.content) == {"puzzle", "fen", "moves", "rating", "themes"}
    json.dumps(example.content)

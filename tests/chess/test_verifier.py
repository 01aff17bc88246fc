from __future__ import annotations

import asyncio

import pytest
from attrs import evolve
from chess_fakes import MATE_IN_TWO, ScriptedModel, WatchedEnvironment, example, trajectory

from whale_chess.config import VerifierConfig
from whale_chess.environment import ChessEnvironment
from whale_chess.verifier import ChessLineVerifier
from whale_core.plugins import Setup
from whale_core.records import Trajectory, Verdict

EMPTY = trajectory(
    ScriptedModel(lambda messages: ""),
    WatchedEnvironment(ChessEnvironment(example(MATE_IN_TWO)), ScriptedModel(lambda m: "")),
    "",
)


def with_attempts(*attempts: tuple[str, str]) -> Trajectory:
    record = {"attempts": [{"move": move, "status": status} for move, status in attempts]}
    return evolve(EMPTY, record={**record, "solved": True})


def verdict(subject: Trajectory) -> Verdict:
    verifier = ChessLineVerifier(VerifierConfig(), Setup(seed=1))
    found = asyncio.run(verifier.verify(example(MATE_IN_TWO), subject))
    assert isinstance(found, Verdict)
    return found


def test_the_complete_line_earns_the_reward():
    found = verdict(with_attempts(("Qe8+", "continue"), ("e1e8", "solved")))
    assert found.reward == 1.0 and found.parts["correct_moves"] == 1.0


def test_a_part_of_the_line_earns_nothing_but_is_reported():
    found = verdict(with_attempts(("Qe8+", "continue"), ("Kf1", "wrong")))
    assert found.reward == 0.0 and found.parts["correct_moves"] == 0.5


@pytest.mark.parametrize("status", ["solved", "continue", "illegal"])
def test_the_recorded_status_is_not_trusted(status: str):
    assert verdict(with_attempts(("Kf1", status), ("Qe8+", status), ("Re8", status))).reward == 0.0
    assert verdict(with_attempts(("Qe8+", status), ("Rxe8#", status))).reward == 1.0


def test_illegal_moves_are_counted():
    found = verdict(with_attempts(("Qh8", "illegal"), ("Qe8+", "continue"), ("e1e8", "solved")))
    assert found.reward == 1.0 and found.parts["illegal_moves"] == 1.0


def test_no_attempt_no_reward():
    assert verdict(with_attempts()).reward == 0.0

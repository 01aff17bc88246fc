"""``whale power``: what it prints and what it refuses."""

from __future__ import annotations

import json

import pytest

from whale_core.cli.main import main
from whale_core.stats import detectable_gain


def test_sizes_that_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["power", "--examples", "60", "--draws", "8", "--base", "0.25", "--correlation", "0.5"]
    assert main([*given, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["gain"] == detectable_gain(60, 8, 0.25, 0.5)
    assert found["gain_apart"] == detectable_gain(60, 8, 0.25, 0.5, shared=False)
    assert found["rollouts"] == 2 * 60 * 8 and found["tokens"] is None
    assert main(given) == 0
    said = capsys.readouterr().out
    assert "5.8 points" in said and "17.8 points" in said and "960 (both sides)" in said
    assert main(["power", "--examples", "256", "--draws", "1", "--base", "0.2"]) == 0
    assert "10.7 points" in capsys.readouterr().out
    assert main(["power", "--examples", "20", "--base", "0.95"]) == 0
    assert "none: too few examples" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ([], 2, "give --examples N and --base RATE"),
        (["--examples", "1", "--base", "0.2"], 2, "at least two examples"),
        (["--examples", "50", "--base", "1.2"], 2, "base rate must be in [0, 1]"),
        (["--examples", "50", "--base", "0.2", "--correlation", "2"], 2, "correlation"),
        (["--plugin-set", "smoke", "--examples", "5"], 2, "test.examples=256"),
        (["somewhere", "--draws", "5"], 2, "its own sizes"),
        (["one", "two"], 2, "one run at a time"),
        (["nowhere"], 4, "not a run folder"),
    ],
)
def test_what_it_refuses(
    capsys: pytest.CaptureFixture[str], given: list[str], code: int, said: str
) -> None:
    assert main(["power", *given]) == code
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line

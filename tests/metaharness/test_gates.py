from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from metaharness_fakes import H0, FakeContext, h

from whale_core.roles import Rejection
from whale_metaharness.gates import Passage, Rules, check, storable
from whale_metaharness.normalise import normalised_hash
from whale_metaharness.spaces import space_of

BROKEN = {"load": "LOAD", "smoke": "SMOKE", "null": "NULL"}


def passage(source: str, tmp_path: Path) -> Passage:
    rules = Rules(5000, space_of("full"), H0, {normalised_hash(h("A = 1")): "h0004"})
    return asyncio.run(check(source, rules, FakeContext(tmp_path, broken=BROKEN)))


NO_RUN = "class Harness(BaseHarness):\n    A = 1\n"


@pytest.mark.parametrize(
    ("source", "gate", "reason"),
    [
        ("  \n", "size", "the file is empty"),
        ("#" * 5001, "size", "5001 bytes; the most allowed is 5000"),
        ("A = '\udc80'", "size", "not UTF-8 text: surrogates not allowed at character 5"),
        ("x = 1\ny = (\n", "parse", "line 2: '(' was never closed"),
        ("x = 1\0", "parse", "source code string cannot contain null bytes"),
        ("x = " + "-" * 4500 + "1", "parse", "nested too deeply to be read"),
        ("x = 1", "interface", "no top-level class Harness"),
        ("class Harness: pass", "interface", "line 1: class Harness must derive from BaseHarness"),
        (NO_RUN, "interface", "class Harness has no async def run(self, task, model, env)"),
        (
            h().replace("async def", "def").replace("await ", ""),
            "interface",
            "line 6: run must be async def run(self, task, model, env)",
        ),
        (
            h().replace("task, model", "model, task"),
            "interface",
            "line 6: run must be async def run(self, task, model, env)",
        ),
        (h("# words\nA = 1", "why") + "\n\n# end", "duplicate", "the same program as h0004"),
        (h("A = 'LOAD'"), "load", "NameError: x"),
        (h("A = 'LOAD SMOKE'"), "load", "NameError: x"),
        (h("A = 'SMOKE NULL'"), "smoke", "2 of 2 episodes crashed"),
        (
            h("A = 'NULL'"),
            "null",
            "null model random scored 50.0 % of 64, chance is 5.0 %: "
            "the harness solves the task itself",
        ),
    ],
)
def test_each_gate_gives_its_reason(source: str, gate: str, reason: str, tmp_path: Path) -> None:
    assert passage(source, tmp_path).rejection == Rejection(gate, reason)


@pytest.mark.parametrize(
    "source",
    [
        H0,
        h("A = 2"),
        h("A = '\\d'"),  # Python warns; that is no reason
        h().replace("(BaseHarness)", "(sdk.BaseHarness)"),
        h("def other(self):\n    '''Only words.'''"),
    ],
)
def test_valid_candidates_pass_and_their_position_leak_is_kept(source: str, tmp_path: Path) -> None:
    assert passage(source, tmp_path) == Passage(None, {"last": 0.75})


def test_a_refused_candidate_keeps_its_measured_leak(tmp_path: Path) -> None:
    assert passage(h("A = 'NULL'"), tmp_path).position_leak == {"last": 0.75}


def test_what_is_stored_of_a_source() -> None:
    assert storable(H0, 5000) == H0
    assert storable("aé" * 10, 5) == "aéa"
    assert storable("a\udc80", 10) == "a?"


def test_constants_and_docstring_only_bodies_count_in_identity() -> None:
    assert normalised_hash("A = 'x'") != normalised_hash("A = 'y'")
    assert normalised_hash("def f():\n    '''a'''") == normalised_hash("def f():\n    pass")
    assert normalised_hash("def f():\n    'a'\n    return 'b'") != normalised_hash(
        "def f():\n    'a'\n    return 'c'"
    )

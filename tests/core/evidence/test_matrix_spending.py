"""What a matrix pays: within the run's caps, and on the disk before a stop can lose it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from worlds_kit import BOTH, LetterEngine, settings

from whale_core.config import resolve
from whale_core.errors import CapReached
from whale_core.evidence import matrix
from whale_core.evidence.cell_ledger import CellLedger
from whale_core.evidence.cells import user_cells
from whale_core.evidence.grid import Row
from whale_core.keys import content_hash
from whale_core.plugins import Setup
from whale_core.plugins.manager import load_plugins
from whale_core.roles import Harness
from whale_core.run.ledger import Charge
from whale_core.testing.toy import DomainConfig, ToyDomain


def one_row(monkeypatch: pytest.MonkeyPatch, *caps: str) -> matrix.Matrix:
    """Measure the first weights under two harnesses: 2 cells of 3 rollouts each."""
    plugins = load_plugins()
    resolved = resolve(plugins, settings(BOTH), [], [*caps])
    domain = ToyDomain(DomainConfig(), Setup(0))
    source = domain.harnesses[domain.base_harness]
    harnesses = [Harness(content_hash(text), text, "h") for text in (source, source + "\n")]
    weights = content_hash("letters", f"{0.0:.9f}")
    stored: Any = SimpleNamespace(
        path=Path("run"), made_with=lambda: SimpleNamespace(jail_kind="process")
    )
    run = matrix._Run(
        stored,
        "run",
        resolved,
        (Row("θ0", weights, "run", None, 0, weights),),
        {each.id: each for each in harnesses},
        {},
        (),
    )
    monkeypatch.setattr(matrix, "check_same_task", lambda *same: None)
    asked = matrix.Asked(examples=3, held_out=0)
    return matrix._Work([run], plugins, asked, user_cells()).measured()


def test_a_matrix_keeps_to_the_caps_and_to_what_was_paid(
    engines: list[LetterEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    for made in (3, 0):  # what the stopped command paid counts in the next
        with pytest.raises(CapReached, match=r"cap\.rollouts=4 .*`whale matrix … cap\.rollouts=…`"):
            one_row(monkeypatch, "cap.rollouts=4")
        assert engines[-1].generated["calls"] == made
    text = Path("cache/matrix/ledger.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["rollouts"] for line in lines] == [3] and lines[0]["cell"]
    whole = one_row(monkeypatch, "cap.rollouts=6")
    assert (whole.kept, whole.ledger["rollouts"]) == (3, 3)
    assert whole.ledger_of_cells["rollouts"] == 6 == whole.as_json()["ledger_of_cells"]["rollouts"]


def test_a_cells_cost_outlives_the_command(tmp_path: Path) -> None:
    first = CellLedger(tmp_path)
    for cell, rollouts in (("a", 4), ("b", 2), ("", 1)):
        first.cell = cell
        first.charge(Charge("policy", "matrix", 0, 0, rollouts=rollouts, usd=0.5))
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(path.read_bytes() + b'{"cell": "a", "rol')  # torn by a kill
    again = CellLedger(tmp_path)
    again.take_up({"a"})
    assert (again.rollouts, again.total("usd"), again.now.rollouts) == (4, 0.5, 0)
    again.cell = "a"
    again.charge(Charge("policy", "matrix", 0, 0, rollouts=3))
    third = CellLedger(tmp_path)
    third.take_up({"a", "b"})
    assert third.rollouts == 9 and third.now.rollouts == 0

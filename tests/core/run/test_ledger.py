"""What a ledger says of a judge whose replies hold no verdict."""

from __future__ import annotations

import pytest
from attrs import asdict

from whale_core.records import Spent
from whale_core.run.ledger import Ledger, spent_charge


def ledger_of(calls: int, malformed: int) -> Ledger:
    ledger = Ledger()
    for role, spent in (
        ("judge", Spent(calls - 1, malformed=malformed)),
        ("judge", Spent(1)),
        ("proposer", Spent(1000)),
    ):
        charge = spent_charge(role, spent, "score", calls)
        assert charge is not None
        ledger.charge(charge)
    return ledger


@pytest.mark.parametrize(("calls", "malformed"), [(2, 0), (100, 3), (1000, 30)])
def test_few_replies_without_a_verdict_are_not_worth_a_sentence(calls: int, malformed: int) -> None:
    ledger = ledger_of(calls, malformed)
    assert ledger.judge_note() == "" and ledger.totals()["malformed"] == malformed


def test_more_than_a_few_per_cent_are_told() -> None:
    note = ledger_of(100, 4).judge_note()
    assert note.startswith("4 of the judge's 100 replies (4.0 %) held no verdict: ")
    assert Ledger().judge_note() == ""


def test_a_ledger_of_an_older_version_is_read_on() -> None:
    charge = spent_charge("judge", Spent(5), "score")
    assert charge is not None
    line = {name: value for name, value in asdict(charge).items() if name != "malformed"}
    ledger = Ledger.of([line])
    assert (ledger.total("calls"), ledger.total("malformed")) == (5, 0)

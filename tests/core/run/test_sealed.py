"""The test split is refused to plugins and its openings are counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from whale_core.errors import InputError
from whale_core.plugins import Setup
from whale_core.run.sealed import SealedDomain, record_opening, split_hash
from whale_core.testing.toy import DomainConfig, ToyDomain


def test_test_split_is_sealed_and_the_rest_passes() -> None:
    domain = ToyDomain(DomainConfig(), Setup(0))
    sealed = SealedDomain(domain)
    with pytest.raises(InputError, match="sealed"):
        sealed.split("test")
    assert sealed.split("weight") == domain.split("weight")
    assert sealed.brief == domain.brief
    with pytest.raises(AttributeError):
        sealed._splits  # noqa: B018


def test_openings_are_counted_per_split(tmp_path: Path) -> None:
    register = tmp_path / "state" / "openings.json"
    assert [record_opening("a", run, register) for run in ("x", "y", "z")] == [1, 2, 3]
    assert record_opening("a", "y", register) == 2  # a run that is continued counts once
    assert record_opening("b", "x", register) == 1


def test_split_hash_sees_content_not_order() -> None:
    domain = ToyDomain(DomainConfig(), Setup(0))
    examples = list(domain.split("test"))
    assert split_hash(examples) == split_hash(examples[::-1])
    assert split_hash(examples) != split_hash(examples[1:])

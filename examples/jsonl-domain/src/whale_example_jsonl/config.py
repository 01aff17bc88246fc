"""The settings of the domain and of the verifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from attrs import field, frozen
from attrs.validators import ge, in_
from whale_core.config.paths import PathSetting

RULES = ("exact", "ignore-case", "number")


@frozen
class Config:
    """``path`` is a JSONL file (empty: the bundled sample); the next three name its columns, the
    last four are the shares of the splits."""

    recommended: ClassVar[Mapping[str, Any]] = {"verifier": {"name": "answer-match"}}

    path: Annotated[str, PathSetting()] = ""
    question: str = "question"
    answer: str = "answer"
    group: str = ""
    weight: int = field(default=5, validator=ge(1))
    harness: int = field(default=2, validator=ge(1))
    selection: int = field(default=1, validator=ge(1))
    test: int = field(default=2, validator=ge(1))


@frozen
class VerifierConfig:
    """``tolerance`` is for the rule ``number``."""

    rule: str = field(default="ignore-case", validator=in_(RULES))
    tolerance: float = field(default=0.0, validator=ge(0.0))

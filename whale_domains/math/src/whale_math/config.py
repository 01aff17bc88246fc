"""The settings of the math plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from attrs import field, frozen
from attrs.validators import ge, gt, in_, le

from whale_core.config.paths import PathSetting

PUBLISHED = ("dapo", "gsm8k", "math500", "aime2024", "aime2025")
SOURCES = ("bundled", "tuning", "file", *PUBLISHED)
MOST_LEVEL = 6


@frozen
class PythonConfig:
    """The tool ``python``: limits of one call, or a service that runs the code."""

    url: str = ""
    """Address of a SandboxFusion-compatible service (``http://host:port``); empty: a jail here,
    with the standard library only."""
    cpu_seconds: float = field(default=5.0, validator=ge(1))
    """Processor time of one call (in the jail, rounded up to whole seconds)."""
    wall_seconds: float = field(default=10.0, validator=gt(0))
    """Time that one call may take at most, asleep or not."""
    memory_mb: int = field(default=512, validator=ge(64))
    """Memory of one call."""
    output: int = field(default=4000, validator=[ge(1), le(1_000_000)])
    """Characters of standard output, and of standard error, that are kept of one call."""


@frozen
class Benchmark:
    """A published data set whose problems are the test split, or a part of it."""

    source: str = field(default="aime2024", validator=in_(PUBLISHED))
    """Which one: ``dapo``, ``gsm8k``, ``math500``, ``aime2024``, ``aime2025``."""
    path: Annotated[str, PathSetting()] = ""
    """A JSONL or Parquet file of it; empty: the hub."""
    revision: str = ""
    """Its commit on the hub."""


@frozen
class Config:
    """Settings of the domain ``math``."""

    recommended: ClassVar[Mapping[str, Any]] = {
        "verifier": {"name": "math-verify"},
        "harness": "short",  # for small models; with a large one, strong or published
    }

    source: str = field(default="bundled", validator=in_(SOURCES))
    """Where problems come from: ``bundled`` or ``tuning`` (generated ones, of different seeds),
    ``file`` (``path``), or a published data set: ``dapo``, ``gsm8k``, ``math500``, ``aime2024``,
    ``aime2025``."""
    path: Annotated[str, PathSetting()] = ""
    """A JSONL or Parquet file: of your own problems for ``source=file``, of a published data set
    that you have as a file otherwise."""
    question: str = "question"
    """With ``source=file``, the column of problems."""
    answer: str = "answer"
    """With ``source=file``, the column of answers; what follows the last ``####``, where there is
    one (GSM8K)."""
    revision: str = ""
    """With a published data set from the hub: the commit, which is needed for results that stay."""
    lowest: int = field(default=1, validator=[ge(1), le(MOST_LEVEL)])
    """Easiest level of the generated problems, 1 to 6."""
    highest: int = field(default=MOST_LEVEL, validator=[ge(1), le(MOST_LEVEL)])
    """Hardest level of the generated problems."""
    weight: int = field(default=960, validator=ge(1))
    """Problems that weight steps take their prompts from."""
    harness: int = field(default=256, validator=ge(1))
    """Problems on which candidate harnesses are scored."""
    selection: int = field(default=256, validator=ge(1))
    """Problems for choosing between phases."""
    test: int = field(default=200, validator=ge(1))
    """Problems of the final pass."""
    test_from: tuple[Benchmark, ...] = ()
    """Published data sets that the test problems come from instead, each by ``source``, and
    ``path`` or ``revision``; results are told for each. None of them is in another split."""
    split_seed: int = 42
    """Decides which problem is in which split; the run's seed does not."""
    python: PythonConfig = field(factory=PythonConfig)

    def split_sizes(self) -> Mapping[str, int]:
        """Return how many examples each split is to have."""
        return {name: getattr(self, name) for name in ("weight", "harness", "selection", "test")}


@frozen
class StrictBoxConfig:
    """The verifier ``strict-box`` has nothing to set."""


@frozen
class MathVerifyConfig:
    """Settings of the verifier ``math-verify``."""

    workers: int = field(default=2, validator=ge(1))
    """Processes that compare answers; integers need none."""
    seconds: float = field(default=10.0, validator=gt(0))
    """Processor time of one comparison; one that takes more is undecided, which earns nothing."""

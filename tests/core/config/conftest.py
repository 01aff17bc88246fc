"""A small world of plugins: two domains, two of each other role that matter, one plugin set."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from whale_core.plugins.manager import Plugins
from whale_core.plugins.registered import Origin

PARTS = """
from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Literal

from attrs import field, frozen
from attrs.validators import ge, gt

from whale_core.plugins import Registration, hookimpl
from whale_core.plugins.sets import PluginSet


@frozen
class Chess:
    recommended: ClassVar[Mapping[str, Any]] = {
        "verifier": "line",
        "search": {"examples": 33},
        "model_update": {"name": "rsft", "prompts": 5},
        "harness_search": {"candidates": 4},
    }
    puzzles: Path = Path("bundled.csv")
    size: int = field(default=100, validator=ge(1))


@frozen
class Sums:
    recommended: ClassVar[Mapping[str, Any]] = {
        "domain": {"size": 7},
        "verifier": {"name": "boxed"},
    }
    size: int = 9


@frozen
class Empty:
    pass


class Dtype(Enum):
    BF16 = "bfloat16"
    F32 = "float32"


@frozen
class Limits:
    tokens: int = field(default=64, validator=ge(1))
    stop: tuple[str, ...] = ()


@frozen
class Engine:
    model: str = "small"
    dtype: Dtype = Dtype.BF16
    device: Literal["cpu", "cuda"] = "cpu"
    threads: int | None = None
    limits: Limits = field(factory=Limits)
    extra: Mapping[str, float] = field(factory=dict)


@frozen
class Rsft:
    prompts: int = field(default=24, validator=ge(1))
    group_size: int = field(default=8, validator=ge(1))
    lr: float = field(default=1e-6, validator=gt(0.0))
    shuffle: bool = True

    def __attrs_post_init__(self) -> None:
        if self.prompts * self.group_size > 10_000:
            raise ValueError("prompts * group_size must be at most 10000")


@frozen
class Grpo:
    beta: float = 0.1


@frozen
class Search:
    needs: ClassVar[tuple[str, ...]] = ("proposer",)
    candidates: int = 3


@frozen
class Both:
    needs: ClassVar[tuple[str, ...]] = ("model_update", "harness_search")
    epochs: float = 0.5


@frozen
class WeightsAlone:
    needs: ClassVar[tuple[str, ...]] = ("model_update",)


@frozen
class Unreadable:
    engine: complex = 1j


def _one(name, config):
    return Registration(name, "acme_parts:Empty", f"acme_parts:{config}", "")


@hookimpl
def whale_register_domains():
    return [_one("chess", "Chess"), _one("sums", "Sums"), _one("odd", "Unreadable")]

@hookimpl
def whale_register_verifiers():
    return [_one("line", "Empty"), _one("boxed", "Empty")]

@hookimpl
def whale_register_rollout_engines():
    return [_one("local", "Engine")]

@hookimpl
def whale_register_proposers():
    return [_one("mutation", "Empty")]

@hookimpl
def whale_register_model_updates():
    return [_one("rsft", "Rsft"), _one("grpo", "Grpo")]

@hookimpl
def whale_register_harness_searches():
    return [_one("search", "Search")]

@hookimpl
def whale_register_schedulers():
    return [_one("both", "Both"), _one("weights-alone", "WeightsAlone")]

@hookimpl
def whale_register_plugin_sets():
    here = Path(__file__).parent
    return [PluginSet(name, str(here / f"{name}.yaml"), "") for name in ("full", "half", "gone")]
"""

FULL = """
domain: {name: chess, size: 50}
verifier: line
engine: local
proposer: mutation
model_update: {name: rsft, prompts: 12, lr: 3e-5}
harness_search: search
scheduler: {name: both, epochs: 0.25}
in_domain:
  sums:
    search: {examples: 12}
    harness_search: {candidates: 9}
"""

HALF = """
domain: chess
verifier: line
engine: local
model_update: rsft
scheduler: weights-alone
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugins]:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "acme_parts.py").write_text(PARTS)
    (tmp_path / "full.yaml").write_text(FULL)
    (tmp_path / "half.yaml").write_text(HALF)
    import acme_parts

    loaded = Plugins()
    loaded.add(acme_parts, Origin("acme-parts", "1.0", "main"))
    assert loaded.failures == []
    yield loaded
    del sys.modules["acme_parts"]

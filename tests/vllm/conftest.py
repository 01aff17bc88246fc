"""Servers and engines for the tests of the engine ``vllm``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for vllm_server_kit

from vllm_server_kit import Server, bytes_server

from whale_core.plugins import Setup
from whale_transformers.tiny import tiny_folder
from whale_vllm.config import Config
from whale_vllm.engine import VLLMEngine

Engines = Callable[..., VLLMEngine]


@pytest.fixture(scope="session")
def folder() -> Path:
    return tiny_folder()


@pytest.fixture
def servers(folder: Path) -> Iterator[list[Server]]:
    """Two servers of the tiny model."""
    made = [bytes_server(folder), bytes_server(folder)]
    yield made
    for server in made:
        server.close()


@pytest.fixture
def engines(folder: Path, servers: list[Server]) -> Iterator[Engines]:
    """A function from settings to an engine, that of the two servers unless they say otherwise."""
    made: list[VLLMEngine] = []

    def make(**settings: object) -> VLLMEngine:
        usual = {"model": str(folder), "urls": tuple(s.url for s in servers), "max_context": 256}
        made.append(VLLMEngine(Config(**{**usual, **settings}), Setup(0)))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for engine in made:
        asyncio.run(engine.close())

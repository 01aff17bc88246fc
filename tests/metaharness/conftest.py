from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from proposer_server_kit import KEY, ModelServer, Script

sys.path.insert(0, str(Path(__file__).parent))  # for the kits, also in child processes


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Script], ModelServer]]:
    """Start servers of a scripted model; the key is in the environment, and waits are short."""
    monkeypatch.setenv("TOY_PROPOSER_KEY", KEY)
    monkeypatch.setattr("whale_metaharness.proposers.agent.FIRST_WAIT", 0.02)
    servers: list[ModelServer] = []

    def start(script: Script) -> ModelServer:
        servers.append(ModelServer(script))
        return servers[-1]

    yield start
    for server in servers:
        server.close()

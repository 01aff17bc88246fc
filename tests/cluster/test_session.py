"""How the trainer's actors are placed, and what is left of them, on a Ray that believes in GPUs.

The actors here do nothing: real ones are in test_trainer.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cpu_shims
import pytest
from stub_actors import Idle

from whale_core.ray_connection import ENVIRONMENT
from whale_rsft.openrlhf.session import Session, use_of
from whale_rsft.openrlhf.settings import OpenRLHF

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("default")]  # Ray's and DeepSpeed's


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    import ray

    cpu_shims.install()  # here alone: the actors import nothing that needs them
    os.environ.update(ENVIRONMENT)
    ray.init(
        address="local",
        num_cpus=6,
        num_gpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": str(Path(__file__).parent)}},
    )
    yield ray
    ray.shutdown()


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whale_rsft.openrlhf.actor.RSFTActor", Idle)


def started(settings: OpenRLHF) -> Session:
    return Session(settings, use_of(settings))


def free(ray: Any, name: str, wanted: float) -> float:
    """Return how much is free, once it is what is wanted or after a while."""
    until = time.monotonic() + 30
    while (there := ray.available_resources().get(name, 0.0)) != wanted:
        if time.monotonic() > until:
            break
        time.sleep(0.2)
    return float(there)


def test_what_was_reserved_is_free_again_for_the_next_run(ray: Any, idle: None) -> None:
    for _ in range(2):
        session = started(OpenRLHF(ranks=2))
        first, second = session.call("alive")
        assert (first[0], second[0]) == ((2, 0, None, None), (2, 1, "rank-0", 1234))
        assert sorted([first[1], second[1]]) == [[0], [1]]
        assert free(ray, "GPU", 0.0) == 0.0
        session.close()
        assert (free(ray, "GPU", 2.0), free(ray, "CPU", 6.0)) == (2.0, 6.0)


def test_ranks_share_gpus_with_the_engines_actors_one_on_each(ray: Any, idle: None) -> None:
    engine = [ray.remote(Idle).options(num_gpus=0.6).remote(1, 0, None, None) for _ in range(2)]
    ray.get([each.alive.remote() for each in engine])
    session = started(OpenRLHF(ranks=2, gpus_per_rank=0.4))
    assert sorted(gpus for _, gpus in session.call("alive")) == [[0], [1]]
    session.close()
    for each in engine:
        ray.kill(each)
    assert free(ray, "GPU", 2.0) == 2.0

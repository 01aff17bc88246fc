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
from stub_actors import Failing, Idle

from whale_core.errors import InputError, TrainerError
from whale_core.ray_connection import ENVIRONMENT
from whale_rsft.openrlhf import session as sessions
from whale_rsft.openrlhf.session import Session, use_of
from whale_rsft.openrlhf.settings import OpenRLHF

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("default")]  # Ray's and DeepSpeed's


class Absent(Idle):
    """An actor that is not installed where it should start."""


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
    """Return a session whose actors have started; close it where they do not."""
    session = Session(settings, use_of(settings))
    try:
        session.start()
    except BaseException:
        session.close()
        raise
    return session


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


def test_actors_that_find_no_room_are_given_up_and_leave_nothing(
    ray: Any, idle: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ray.remote(Idle).options(num_gpus=1).remote(1, 0, None, None)  # another program's
    ray.get(other.alive.remote())
    monkeypatch.setattr(sessions, "START_SECONDS", 3.0)
    said = r"no room for these actors within 3 s: they want 2 CPUs and 2 GPUs, 5 and 1 are free"
    with pytest.raises(InputError, match=said):
        started(OpenRLHF(ranks=2))
    ray.kill(other)
    assert (free(ray, "GPU", 2.0), free(ray, "CPU", 6.0)) == (2.0, 6.0)


def test_actors_that_do_not_start_are_one_line(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whale_rsft.openrlhf.actor.RSFTActor", Failing)
    with pytest.raises(TrainerError, match=r"did not start \(RuntimeError: no GPU here\): resume"):
        started(OpenRLHF(ranks=2))
    # Ray's workers cannot import this module, as on a machine without whale-rsft.
    monkeypatch.setattr("whale_rsft.openrlhf.actor.RSFTActor", Absent)
    said = r"\(ModuleNotFoundError: .*\): install 'whale-rsft\[openrlhf\]' on every machine"
    with pytest.raises(InputError, match=said):
        started(OpenRLHF(ranks=2))
    assert free(ray, "GPU", 2.0) == 2.0

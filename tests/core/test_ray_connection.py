"""Who connects to Ray, and who closes: with a stand-in for Ray, which is not installed here."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from whale_core import ray_connection
from whale_core.errors import InputError
from whale_core.ray_connection import Use


class Stub:
    """As much of the module ``ray`` as is used. Its processes end with the thread that started
    them, as Ray's do."""

    def __init__(self, head: str) -> None:
        self.head = head
        self.starter: threading.Thread | None = None
        self.connected = False
        self.fails = ""
        self.gpus = 8.0
        self.cpus = 4.0

    def is_initialized(self) -> bool:
        return self.connected

    def init(self, **_: Any) -> None:
        if self.fails:
            raise ConnectionError(self.fails)
        self.connected, self.starter = True, threading.current_thread()

    def shutdown(self) -> None:
        self.connected = False

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": self.cpus, **({"GPU": self.gpus} if self.gpus else {})}

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(gcs_address=self.head)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    with socket.create_server(("127.0.0.1", 0)) as head:
        made = Stub(f"127.0.0.1:{head.getsockname()[1]}")
        monkeypatch.setitem(sys.modules, "ray", made)
        for name in ray_connection.ENVIRONMENT:
            monkeypatch.setenv(name, "of the test")
        yield made


def use(name: str = "a", gpus: float = 0.0, address: str = "local", cpus: float = 0.0) -> Use:
    return Use(f"{name}.address", address, f"{name}.replicas={gpus:g}", gpus, cpus)


def joined(wanted: Use) -> Use:
    """Join on a thread that ends at once, as one of an event loop does with the loop."""
    heads: list[str] = []
    thread = threading.Thread(target=lambda: heads.append(ray_connection.join(wanted)))
    thread.start()
    thread.join()
    assert heads == [sys.modules["ray"].head]
    return wanted


def test_the_last_one_out_closes_what_the_first_one_opened(stub: Stub) -> None:
    first = joined(use("a"))
    assert stub.starter is not None and stub.starter.is_alive(), "Ray would end with this thread"
    second = joined(use("b"))
    ray_connection.leave(first)
    ray_connection.leave(first)
    assert stub.connected and stub.starter.is_alive()
    ray_connection.leave(second)
    assert not stub.connected
    stub.starter.join(10.0)
    assert not stub.starter.is_alive()


def test_a_connection_that_was_there_is_left_alone(stub: Stub) -> None:
    stub.init()
    ray_connection.leave(joined(use()))
    assert stub.connected


def test_one_whose_head_is_gone_is_closed_by_the_first_and_only_that_one(stub: Stub) -> None:
    alive, stub.head = stub.head, "127.0.0.1:9"
    first, second = joined(use("a")), joined(use("b"))
    ray_connection.leave(first)
    assert not stub.connected
    stub.head = alive
    third = joined(use("c"))
    ray_connection.leave(second)
    assert stub.connected, "another one's connection"
    ray_connection.leave(third)
    assert not stub.connected


def test_a_connection_that_cannot_be_made_is_one_line(stub: Stub) -> None:
    stub.fails = "no head\nat that address"
    said = r"^a\.address=auto: no Ray cluster there \(no head\): start"
    with pytest.raises(InputError, match=said):
        ray_connection.join(use(address="auto"))
    for address in ("127.0.0.1:9", "somewhere", "127.0.0.1:99999"):  # Ray itself tries for minutes
        with pytest.raises(InputError, match="nothing listens there"):
            ray_connection.join(use(address=address))
    with pytest.raises(ray_connection.NotStarted, match="Ray did not start here"):
        ray_connection.join(use())


def test_gpus_are_counted_once(stub: Stub) -> None:
    """What is only planned counts too: it would wait for GPUs when its turn comes."""
    trainer = use("trainer", 8.0)
    ray_connection.plan(trainer)
    said = r"^trainer\.replicas=8 and engine\.replicas=8 want 16 GPUs, the Ray cluster has 8: "
    with pytest.raises(InputError, match=said):
        ray_connection.join(use("engine", 8.0))
    assert not stub.connected, "it is closed again"
    on_cpus = joined(use("engine", 0.0))
    ray_connection.join(trainer)
    for each in (trainer, on_cpus):
        ray_connection.leave(each)

    shares = [joined(use(name, 8 * share)) for name, share in [("a", 0.6), ("b", 0.4)]]
    with pytest.raises(InputError, match=r"want 8\.1 GPUs"):
        ray_connection.join(use("c", 0.1))
    assert stub.connected, "the others are still there"
    for each in shares:
        ray_connection.leave(each)
    stub.gpus = 0.0
    ray_connection.leave(joined(use(gpus=0.0)))
    with pytest.raises(InputError, match=r"^a\.replicas=1 want 1 GPUs, the Ray cluster has 0: "):
        ray_connection.join(use(gpus=1.0))


def test_cpus_are_counted_too(stub: Stub) -> None:
    planned = use("engine", 4.0)
    ray_connection.plan(planned)
    said = r"^trainer\.replicas=4 want 4\.5 CPUs, the Ray cluster has 4: "
    with pytest.raises(InputError, match=said):
        ray_connection.join(use("trainer", 4.0, cpus=4.5))
    ray_connection.leave(joined(use("trainer", 4.0, cpus=4.0)))
    ray_connection.leave(planned)


class Died(Exception):
    """As Ray's ActorDiedError."""

    actor_init_failed = False


def test_the_reason_is_the_line_that_names_the_cause() -> None:
    died = Died("The actor died unexpectedly.\n\tclass_name: A\n")
    assert ray_connection.reason(died) == "The actor died unexpectedly."
    unborn = Died(
        "The actor died because of an error raised in its creation task\n  File a\nE: b\n"
    )
    unborn.actor_init_failed = True
    assert ray_connection.reason(unborn) == "E: b"
    assert ray_connection.reason(Died()) == "Died"


def test_those_who_share_a_connection_name_one_cluster(stub: Stub) -> None:
    engine = joined(use("engine", address="local"))
    said = r"^engine\.address=local, but trainer\.address=a:1: .* set both alike$"
    for want in (ray_connection.plan, ray_connection.join):
        with pytest.raises(InputError, match=said):
            want(use("trainer", address="a:1"))
    ray_connection.leave(engine)
    assert not stub.connected

    planned = use("trainer", address="a:1")
    ray_connection.plan(planned)
    with pytest.raises(InputError, match=r"^trainer\.address=a:1, but engine\.address=local: "):
        ray_connection.join(use("engine"))
    assert not stub.connected, "nothing was started"
    ray_connection.leave(planned)

    stub.init()  # outside: that one is used, whatever is set
    for each in [joined(use("engine")), joined(use("trainer", address="a:1"))]:
        ray_connection.leave(each)
    assert stub.connected

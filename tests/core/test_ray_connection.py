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


class Stub:
    """As much of the module ``ray`` as is used. Its processes end with the thread that started
    them, as Ray's do."""

    def __init__(self, head: str) -> None:
        self.head = head
        self.starter: threading.Thread | None = None
        self.connected = False
        self.fails = ""

    def is_initialized(self) -> bool:
        return self.connected

    def init(self, **_: Any) -> None:
        if self.fails:
            raise ConnectionError(self.fails)
        self.connected, self.starter = True, threading.current_thread()

    def shutdown(self) -> None:
        self.connected = False

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


def joined(address: str = "local") -> str:
    """Join on a thread that ends at once, as one of an event loop does with the loop."""
    heads: list[str] = []
    thread = threading.Thread(target=lambda: heads.append(ray_connection.join(address, "a.b")))
    thread.start()
    thread.join()
    return heads[0]


def test_the_last_one_out_closes_what_the_first_one_opened(stub: Stub) -> None:
    head = joined()
    assert stub.starter is not None and stub.starter.is_alive(), "Ray would end with this thread"
    assert joined() == head == stub.head
    ray_connection.leave(head)
    assert stub.connected and stub.starter.is_alive()
    ray_connection.leave(head)
    assert not stub.connected
    stub.starter.join(10.0)
    assert not stub.starter.is_alive()


def test_a_connection_that_was_there_is_left_alone(stub: Stub) -> None:
    stub.init()
    ray_connection.leave(joined())
    assert stub.connected


def test_one_whose_head_is_gone_is_closed_by_the_first(stub: Stub) -> None:
    stub.init()
    stub.head = "127.0.0.1:9"
    ray_connection.leave(joined())
    assert not stub.connected


def test_a_connection_that_cannot_be_made_is_one_line(stub: Stub) -> None:
    stub.fails = "no head\nat that address"
    with pytest.raises(InputError, match=r"^a\.b=auto: no Ray cluster there \(no head\): start"):
        ray_connection.join("auto", "a.b")
    for address in ("127.0.0.1:9", "somewhere", "127.0.0.1:99999"):  # Ray itself tries for minutes
        with pytest.raises(InputError, match="nothing listens there"):
            ray_connection.join(address, "a.b")
    with pytest.raises(ray_connection.NotStarted, match="Ray did not start here"):
        ray_connection.join("local", "a.b")

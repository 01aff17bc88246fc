"""How the trainer's actors start, or do not: with stand-ins for Ray and the actors, which are not
installed here. With real ones: tests/cluster/test_session.py."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from whale_core import ray_connection
from whale_core.errors import InputError, TrainerError
from whale_rsft.openrlhf import session
from whale_rsft.openrlhf.session import Session, use_of
from whale_rsft.openrlhf.settings import OpenRLHF

SETTINGS = OpenRLHF(ranks=2)


class RayError(Exception):
    """As Ray's, of an actor whose constructor raised."""

    actor_init_failed = True


class Ray(ModuleType):
    """As much of the module ``ray`` as is used. ``answer`` is what calls of actors come to; None:
    they wait."""

    def __init__(self, head: str) -> None:
        super().__init__("ray")
        self.exceptions = SimpleNamespace(RayError=RayError)
        self.head = head
        self.total = {"CPU": 6.0, "GPU": 2.0}
        self.free = {"CPU": 5.5}
        self.answer: Any = None
        self.waits = 0
        self.meanwhile: Callable[[], object] = lambda: None

    def is_initialized(self) -> bool:
        return True

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(gcs_address=self.head)

    def cluster_resources(self) -> dict[str, float]:
        return self.total

    def available_resources(self) -> dict[str, float]:
        return self.free

    def wait(self, refs: Sequence[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        self.waits += 1
        self.meanwhile()
        return ([], list(refs)) if self.answer is None else (list(refs), [])

    def get(self, refs: Sequence[Any]) -> list[Any]:
        if isinstance(self.answer, Exception) and refs:
            raise self.answer
        return [self.answer for _ in refs]


class Group:
    """Counts what is made and ended."""

    made: list[Group]
    has_room = True

    def __init__(self, actor: type, ranks: int, gpus: float) -> None:
        self.given = (actor, ranks, gpus)
        self.closed = 0
        Group.made.append(self)

    def __len__(self) -> int:
        return self.given[1]

    def placed(self) -> bool:
        return Group.has_room

    def call(self, method: str, *arguments: Any) -> list[Any]:
        return [method] * self.given[1]

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ray]:
    Group.made = []
    monkeypatch.setattr(Group, "has_room", True)
    monkeypatch.setattr(session, "START_SECONDS", 0.0)
    for name, members in {"actor": {"RSFTActor": int}, "group": {"Group": Group}}.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, f"whale_rsft.openrlhf.{name}", module)
    with socket.create_server(("127.0.0.1", 0)) as head:
        made = Ray(f"127.0.0.1:{head.getsockname()[1]}")
        monkeypatch.setitem(sys.modules, "ray", made)
        yield made
    assert not ray_connection._planned and not ray_connection._joined


def fails(settings: OpenRLHF, kind: type[Exception], message: str) -> None:
    """Start a session, which is to fail with that one line, and close it."""
    one = Session(settings, use_of(settings))
    with pytest.raises(kind, match=message) as caught:
        one.start()
    assert "\n" not in str(caught.value)
    one.close()
    one.close()
    assert [group.closed for group in Group.made] in ([], [1])


def test_what_finds_no_room_is_said_with_what_is_wanted_and_free(ray: Ray) -> None:
    Group.has_room = False
    said = (
        r"^model_update\.openrlhf\.nodes=1 x ranks=2 at gpus_per_rank=1: .* no room .* want 2 CPUs "
        r"and 2 GPUs, 5\.5 and 0 are free"
    )
    fails(SETTINGS, InputError, said)
    assert ray.waits, "it has waited"


def test_what_does_not_start_in_time_is_given_up(ray: Ray) -> None:
    fails(SETTINGS, TrainerError, "have not started within 0 s: resume the run")


def test_too_few_cpus_are_said_before_anything_waits(ray: Ray) -> None:
    ray.total = {"CPU": 1.0, "GPU": 2.0}
    fails(SETTINGS, InputError, r"ranks=2 at gpus_per_rank=1 want 2 CPUs, the Ray cluster has 1: ")
    assert not Group.made


def test_a_head_that_dies_while_actors_start_is_found(ray: Ray) -> None:
    ray.meanwhile = lambda: setattr(one, "_head", "127.0.0.1:9")
    one = Session(SETTINGS, use_of(SETTINGS))
    with pytest.raises(TrainerError, match=r"Ray's head at 127\.0\.0\.1:9 does not answer"):
        one.start()
    one.close()


def test_closing_ends_actors_that_are_still_starting(ray: Ray) -> None:
    """A run that is interrupted does not wait for them."""

    def interrupt() -> None:
        closing = threading.Thread(target=one.close)
        closing.start()
        closing.join()
        ray.answer = RayError("The actor died because of an error\nkilled")

    ray.meanwhile = interrupt
    one = Session(SETTINGS, use_of(SETTINGS))
    with pytest.raises(TrainerError, match="did not start"):
        one.start()
    assert [group.closed for group in Group.made] == [1]

    early = Session(SETTINGS, use_of(SETTINGS))
    early.close()  # while Ray or its packages are still on their way
    with pytest.raises(TrainerError, match="closed while its actors started"):
        early.start()
    assert [group.closed for group in Group.made] == [1, 1]


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (
            "The actor died\n  File x\nModuleNotFoundError: No module named 'whale_rsft'\n",
            InputError,
            r"\(ModuleNotFoundError: No module named 'whale_rsft'\): install "
            r"'whale-rsft\[openrlhf\]' on every machine",
        ),
        (
            "The actor died\nRuntimeError: CUDA error: out of memory",
            TrainerError,
            r"did not start \(RuntimeError: CUDA error: out of memory\): resume the run",
        ),
    ],
)
def test_an_actor_that_does_not_start_is_one_line(
    ray: Ray, raised: str, kind: type[Exception], message: str
) -> None:
    ray.answer = RayError(raised)
    fails(SETTINGS, kind, message)


def test_a_package_that_cannot_be_imported_here_is_one_line(
    ray: Ray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "whale_rsft.openrlhf.actor", None)
    fails(
        SETTINGS,
        InputError,
        r"cannot be imported \(.*\): install 'whale-rsft\[openrlhf\]' on every",
    )
    monkeypatch.setitem(sys.modules, "ray", None)
    fails(SETTINGS, InputError, r"cannot be imported \(.*ray.*\): install")

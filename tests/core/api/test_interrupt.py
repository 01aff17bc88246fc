"""Ctrl-C: on the main thread, and where an event loop runs already, as in a notebook."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from whale_core.api import RunResult, register, resume, rollouts, run
from whale_core.errors import Interrupted
from whale_core.plugins import hookimpl
from whale_core.testing.engine import ScriptedEngine

Settings = Mapping[str, Any]
Call = Callable[[Callable[[], Any]], Any]

WHOLE: list[RunResult] = []  # a run that nobody stopped, made once


def directly(work: Callable[[], Any]) -> Any:
    return work()


def in_a_cell(work: Callable[[], Any]) -> Any:
    async def cell() -> Any:
        return work()

    return asyncio.run(cell())


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


class Interrupting:
    """Presses Ctrl-C when a search's first rollouts are in, ``times`` times."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.notices: list[str] = []
        self.threads: set[str] = set()

    @hookimpl
    def whale_on_rollouts(self, purpose: str) -> None:
        self.threads.add(threading.current_thread().name)
        if purpose == "score" and not self.notices and self.times:
            interrupt()

    @hookimpl
    def whale_on_notice(self, text: str) -> None:
        self.notices.append(text)
        if len(self.notices) < self.times:
            interrupt()


@pytest.fixture(autouse=True)
def the_usual_handler() -> Any:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("call", [directly, in_a_cell])
@pytest.mark.parametrize(("times", "raised"), [(1, Interrupted), (2, KeyboardInterrupt)])
def test_a_run_stops_resumable(
    times: int, raised: type[BaseException], call: Call, searching: Settings
) -> None:
    if not WHOLE:
        WHOLE.append(run(searching, run_dir="whole", progress=False))
    presser = Interrupting(times)
    with pytest.raises(raised):
        call(lambda: run(searching, run_dir="stopped", progress=False, observers=[presser]))
    assert len(presser.notices) == 1 and "once more stops at once" in presser.notices[0]
    assert presser.threads == {"whale-run" if call is in_a_cell else "MainThread"}
    done = call(lambda: resume("stopped", progress=False))
    assert (done.pairs, done.candidates) == (WHOLE[0].pairs, WHOLE[0].candidates)
    assert not [each for each in threading.enumerate() if each.name == "whale-run"]


@pytest.mark.parametrize("call", [directly, in_a_cell])
def test_rollouts_stop_at_once(call: Call, toy: Settings) -> None:
    asked: list[str] = []

    def script(prompt: str, rng: Any) -> str:
        if not asked:
            interrupt()
        asked.append(prompt)
        return "a"

    register("engine", "pressing", lambda settings, setup: ScriptedEngine(script))
    with pytest.raises(KeyboardInterrupt):
        call(lambda: rollouts(toy, {"engine": "pressing"}, examples=32, draws=16, progress=False))
    assert len(asked) <= 256  # the block that was being worked on


def test_an_interrupt_before_anybody_listens_is_not_lost(searching: Settings) -> None:
    def engine(settings: Any, setup: Any) -> ScriptedEngine:
        interrupt()  # while the parts are being built
        return ScriptedEngine(lambda prompt, rng: "a")

    register("engine", "pressing", engine)
    with pytest.raises(Interrupted):
        in_a_cell(lambda: run(searching, {"engine": "pressing"}, run_dir="r", progress=False))


def test_another_thread_may_run(searching: Settings) -> None:
    done: list[Any] = []
    thread = threading.Thread(
        target=lambda: done.append(run(searching, run_dir="run", progress=False))
    )
    thread.start()
    thread.join()
    assert len(done) == 1

"""Fixtures of the rsft tests; what the tests build by hand is in ``rsft_kit``."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # for rsft_kit

from rsft_kit import LendingEngine, tiny_llama


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models are slower on two threads, and far slower on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def engine() -> LendingEngine:
    """An engine that serves the tiny model in float32."""
    return LendingEngine(tiny_llama())


@pytest.fixture
def engine16() -> LendingEngine:
    """An engine that serves the tiny model in bfloat16."""
    return LendingEngine(tiny_llama(torch.bfloat16))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True

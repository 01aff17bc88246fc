"""The cluster lane: marked ``cluster``, skipped where its packages are not installed."""

from __future__ import annotations

import asyncio
import inspect
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for cpu_shims and cluster_kit
sys.path.insert(0, str(HERE.parent / "rsft"))  # for rsft_kit

NEEDED = ("ray", "deepspeed", "openrlhf", "vllm")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked ``cluster`` where a package of the lane is missing."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if not missing:
        return
    skip = pytest.mark.skip(reason=f"not in the cluster lane: {', '.join(missing)} not installed")
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("cluster"):
            item.add_marker(skip)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True

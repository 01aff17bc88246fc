"""How a contract test says what is violated."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from whale_core.plugins import Setup

Factory = Callable[[Any, Setup], Any]


def require(holds: bool, violated: str) -> None:
    """Raise ``AssertionError`` with the line ``violated`` unless ``holds``."""
    if not holds:
        raise AssertionError(violated)


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Turn any exception but a violated requirement into one: ``what`` raised it."""
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise AssertionError(f"{what} raised {type(error).__name__}: {said}") from error


def build(factory: Factory, config: Any, setup: Setup) -> Any:
    """Return ``factory(config, setup)``."""
    with doing(f"{getattr(factory, '__name__', factory)}(config, setup)"):
        return factory(config, setup)


def require_json(value: Any, what: str) -> None:
    """Require that ``value`` is a JSON object and comes back from its text unchanged."""
    try:
        same = json.loads(json.dumps(value, allow_nan=False)) == value
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{what} is not JSON: {error}") from None
    require(same, f"{what} changes when it is written as JSON and read again (tuples, other keys?)")

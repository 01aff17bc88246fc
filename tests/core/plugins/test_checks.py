"""Does a part fit its role? Every way to miss it that the protocol lets one see."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from attrs import define

from whale_core.plugins import Setup
from whale_core.plugins.checks import check_part
from whale_core.testing.engine import ScriptedEngine
from whale_core.testing.toy import DomainConfig, ToyDomain, ToyVerifier, VerifierConfig


class Update:
    """A weight update that fits."""

    def steps_per_epoch(self, prompts: int) -> int:
        return prompts

    async def steps(self, context: Any) -> AsyncGenerator[Any, None]:
        yield context

    async def save(self, path: Any) -> None: ...

    async def load(self, path: Any, engine: Any) -> None: ...


class Scheduler:
    """A scheduler that fits."""

    def phases(self, facts: Any) -> Any:
        yield facts


def with_member(base: type, name: str, member: Any) -> Any:
    return type("Other", (base,), {name: member})()


def engine() -> ScriptedEngine:
    return ScriptedEngine(lambda prompt, rng: "a")


SETUP = Setup(seed=0)


@pytest.mark.parametrize(
    ("role", "part"),
    [
        ("domain", ToyDomain(DomainConfig(), SETUP)),
        ("verifier", ToyVerifier(VerifierConfig(), SETUP)),
        ("engine", engine()),
        ("model_update", Update()),
        ("scheduler", Scheduler()),
    ],
)
def test_what_fits_passes(role: str, part: object) -> None:
    check_part(role, part)


async def stepping_once(self: Any, context: Any) -> None: ...


def stepping_plainly(self: Any, context: Any) -> Any:
    yield context


def delegating(self: Any, context: Any) -> Any:
    return Update().steps(context)


async def counting(self: Any, prompts: int) -> int:
    return prompts


async def yielding(self: Any, facts: Any) -> AsyncGenerator[Any, None]:
    yield facts


def saving(self: Any, path: Any) -> None: ...


async def loading(self: Any, path: Any) -> None: ...


async def loading_more(self: Any, path: Any, engine: Any, also: Any = None) -> None: ...


@pytest.mark.parametrize(
    ("role", "base", "name", "member", "told"),
    [
        ("model_update", Update, "steps", stepping_once, "must be an asynchronous generator"),
        ("model_update", Update, "steps", stepping_plainly, "must be an asynchronous generator"),
        ("model_update", Update, "steps", delegating, ""),
        ("model_update", Update, "steps", 3, "is not callable"),
        ("model_update", Update, "steps_per_epoch", counting, "must be a plain function"),
        ("model_update", Update, "save", saving, "must be a coroutine function"),
        ("model_update", Update, "load", loading, r"must take the arguments \(path, engine\)"),
        ("model_update", Update, "load", loading_more, ""),
        ("scheduler", Scheduler, "phases", yielding, "must be a plain function, not async"),
    ],
)
def test_a_method_of_another_kind_is_refused(
    role: str, base: type, name: str, member: Any, told: str
) -> None:
    part = with_member(base, name, member)
    if not told:
        check_part(role, part)
        return
    with pytest.raises(TypeError, match=rf"Other is no whale_core\.roles\.\w+: {name} {told}"):
        check_part(role, part)


def test_a_tokenizer_is_looked_into() -> None:
    part = engine()
    part.tokenizer = object()  # type: ignore[assignment]
    with pytest.raises(TypeError, match=r"it lacks tokenizer\.end_tokens, .*tokenizer\.decode"):
        check_part("engine", part)


def test_a_property_is_not_read_and_a_slot_is() -> None:
    def explode(self: object) -> str:
        raise AssertionError("read")

    class Lazy(ToyDomain):
        brief = property(explode)  # type: ignore[assignment]

    check_part("domain", Lazy(DomainConfig(), SETUP))

    @define
    class Slotted:
        version: Any = 3

        async def verify(self, example: Any, trajectory: Any) -> None: ...

    with pytest.raises(TypeError, match="version must be str, is int"):
        check_part("verifier", Slotted())
    check_part("verifier", Slotted("1"))


@pytest.mark.parametrize(
    ("made", "told"),
    [(lambda: None, "made nothing"), (lambda: Update, "made the class Update, not an object")],
)
def test_a_factory_that_makes_no_object(made: Callable[[], object], told: str) -> None:
    with pytest.raises(TypeError, match=f"expected a ModelUpdate, the factory {told}"):
        check_part("model_update", made())

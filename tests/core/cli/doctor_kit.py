"""A plugin set in which each part can be broken in one way: ``engine.fault=…`` and the like."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from attrs import evolve, frozen

from whale_core.errors import EngineError, InputError
from whale_core.plugins import Registration, Setup, hookimpl
from whale_core.plugins.sets import PluginSet
from whale_core.records import Example, Generation, GenerationRequest, Json, Trajectory, Verdict
from whale_core.roles import (
    Phase,
    PhaseResult,
    Proposal,
    RolloutEngine,
    RunFacts,
    WeightContext,
    WeightStep,
    Workspace,
)
from whale_core.testing.engine import END, CharTokenizer, ScriptedEngine
from whale_core.testing.toy import DomainConfig, ToyDomain

PAIR, PAIR_TOKEN = "wn", 5  # two characters in one token: a reply can be sampled in two ways
VOCABULARY = 256
MODEL = "here"


@frozen
class EngineConfig:
    """``model`` other than ``here`` is missing; ``fault`` is what is wrong with the engine."""

    model: str = MODEL
    fault: str = ""
    tokenizer: str = ""
    lends: bool = False
    threads: int = 0


@frozen
class Config:
    """Settings of the other parts."""

    fault: str = ""


class KitTokenizer(CharTokenizer):
    """Exact, unless told otherwise. Writes ``wn`` as one token."""

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self.supports_tools = fault == "tools"
        if fault == "endless":
            self.end_tokens = frozenset()
        if fault == "other end":
            self.end_tokens = frozenset({7})

    def template(
        self, messages: Sequence[Mapping[str, str]], tools: Sequence[Json] | None = None
    ) -> str:
        turns = [dict(turn) for turn in messages]
        if self._fault == "refuses":
            raise ValueError("Only poems are taken")
        if self._fault == "no system" and turns[0]["role"] == "system":
            raise ValueError("System role not supported")
        for turn in turns:
            if self._fault == "trims":
                turn["content"] = turn["content"].strip()
            if self._fault == "title case":
                turn["content"] = turn["content"].title()
        if self._fault == "rewrites history":
            for turn in turns[:-1]:
                turn["role"] = f"past {turn['role']}"
        text = super().template(turns)
        return f"<s>tools\n{len(tools)}</s>\n{text}" if tools else text

    def encode(self, text: str, *, special: bool) -> list[int]:
        if self._fault == "trusting":
            special = True
        if self._fault == "loses accents" and not special:
            text = text.replace("é", "e")
        ids: list[int] = []
        for number, part in enumerate(text.split(PAIR)):
            ids += [PAIR_TOKEN] if number else []
            ids += super().encode(part, special=special)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(
            PAIR if t == PAIR_TOKEN else super(KitTokenizer, self).decode([t]) for t in ids
        )


class KitEngine(ScriptedEngine):
    """Keeps its promises, unless told otherwise."""

    def __init__(self, config: EngineConfig, setup: Setup | None = None) -> None:
        if config.model != MODEL:
            raise InputError(f"model {config.model}: no such folder")
        if config.fault == "crash":
            raise ZeroDivisionError("boom")
        super().__init__(self._answer)
        self.tokenizer = KitTokenizer(config.tokenizer)
        self.closed = 0
        self._fault = config.fault
        self._threads = config.threads

    def facts(self) -> Mapping[str, Json]:
        return {"model": MODEL, "dtype": "float32", "threads": self._threads or 1}

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        if self._fault == "down":
            raise EngineError("connection refused")
        made = [
            evolve(each, logprobs=self._logprobs(each)) for each in await super().generate(requests)
        ]
        if self._fault == "company":
            made = [evolve(each, logprobs=each.logprobs - 1e-7 * len(made)) for each in made]
        if self._fault == "order":
            made[0] = evolve(made[0], token_ids=made[0].token_ids + 1)
        if self._fault == "names others":
            made = [evolve(each, weights_id="others") for each in made]
        return made

    async def load(self, path: Path | None) -> str:
        if self._fault == "initial differs" and path is None:
            self.served = "differs"
        if self._fault == "loses weights" and path is not None:
            self.served = "lost"
        return self.served

    async def save(self, path: Path) -> str:
        return "another" if self._fault == "misnames" else await super().save(path)

    async def close(self) -> None:
        self.closed += 1
        if self._fault == "stays open":
            raise RuntimeError("will not close")

    def _answer(self, prompt: str, rng: np.random.Generator) -> str:
        return "aeiou"

    def _logprobs(self, made: Generation) -> Any:
        return np.full(len(made.token_ids), -np.log(VOCABULARY), np.float32)


class LendingEngine(KitEngine):
    """Lends a module whose one parameter is a bias on the logit of token 0."""

    def __init__(self, config: EngineConfig, setup: Setup | None = None) -> None:
        super().__init__(config)
        import torch

        class Module(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.bias = torch.nn.Parameter(torch.ones(1))

            def forward(self, ids: Any, use_cache: bool) -> Any:
                logits = torch.zeros(*ids.shape, VOCABULARY)
                logits[..., 0] = self.bias
                return SimpleNamespace(logits=logits)

        self._module = Module()
        self._initial = self.served

    async def borrow(self, work: Callable[[Any], Any]) -> Any:
        return work(self._module)

    async def refresh(self) -> str:
        if self._fault != "same id":
            bias = self._module.bias.item()
            self.served = self._initial if bias == 1.0 else f"bias {bias}"
        return self.served

    async def load(self, path: Path | None) -> str:
        if self._fault != "keeps changes":
            self._module.bias.data.fill_(1.0)
        return await self.refresh()

    def _logprobs(self, made: Generation) -> Any:
        bias = 1.0 if self._fault == "deaf" else self._module.bias.item()
        wrong = 0.01 if self._fault == "inexact" else 0.0
        value = -np.log(VOCABULARY - 1 + np.exp(bias)) + wrong
        return np.full(len(made.token_ids), value, np.float32)


def engine(config: EngineConfig, setup: Setup) -> KitEngine:
    return (LendingEngine if config.lends else KitEngine)(config)


class KitDomain(ToyDomain):
    """The toy domain; its splits may overlap."""

    def split(self, name: str) -> Sequence[Example]:
        overlap = getattr(self, "overlap", False)
        return super().split("weight" if overlap and name == "test" else name)


@frozen
class KitDomainConfig(DomainConfig):
    """Settings of the toy domain, and whether ``test`` is ``weight`` again."""

    overlap: bool = False


def domain(config: KitDomainConfig, setup: Setup) -> KitDomain:
    made = KitDomain(config, setup)
    made.overlap = config.overlap
    return made


class KitVerifier:
    """Gives a reward of 1, unless told otherwise."""

    version = "kit"

    def __init__(self, config: Config, setup: Setup) -> None:
        self._fault = config.fault

    async def verify(self, example: Example, trajectory: Trajectory) -> Verdict:
        if self._fault == "crash":
            raise KeyError("said")
        return Verdict(2.0 if self._fault == "too much" else 1.0)


class KitProposer:
    """Proposes nothing."""

    note = ""

    def __init__(self, config: Config, setup: Setup) -> None:
        self.writes_code = config.fault == "writes code"

    async def propose(self, workspace: Workspace) -> Proposal:
        return Proposal(())


class KitUpdate:
    """Trains nothing; wants at least ten prompts."""

    def __init__(self, config: Config, setup: Setup) -> None:
        pass

    def steps_per_epoch(self, prompts: int) -> int:
        if prompts < 10:
            raise InputError(f"model_update.prompts=10, but the weight split has {prompts}")
        return 1

    async def steps(self, context: WeightContext) -> AsyncGenerator[WeightStep, None]:
        return
        yield

    async def save(self, path: Path) -> None: ...

    async def load(self, path: Path, engine: RolloutEngine) -> None: ...


class KitScheduler:
    """Schedules nothing."""

    def __init__(self, config: Config, setup: Setup) -> None:
        if config.fault:
            raise InputError("scheduler.epochs: too few prompts")

    def phases(self, facts: RunFacts) -> Generator[Phase, PhaseResult, None]:
        yield from ()


def _one(name: str, config: str) -> list[Registration]:
    return [Registration("kit", f"doctor_kit:{name}", f"doctor_kit:{config}", "for a test")]


@hookimpl
def whale_register_domains() -> list[Registration]:
    return _one("domain", "KitDomainConfig")


@hookimpl
def whale_register_verifiers() -> list[Registration]:
    return _one("KitVerifier", "Config")


@hookimpl
def whale_register_rollout_engines() -> list[Registration]:
    return _one("engine", "EngineConfig")


@hookimpl
def whale_register_proposers() -> list[Registration]:
    return _one("KitProposer", "Config")


@hookimpl
def whale_register_model_updates() -> list[Registration]:
    return _one("KitUpdate", "Config")


@hookimpl
def whale_register_schedulers() -> list[Registration]:
    return _one("KitScheduler", "Config")


@hookimpl
def whale_register_plugin_sets() -> list[PluginSet]:
    return [PluginSet("kit", str(Path(__file__).with_suffix(".yaml")), "for a test")]


__all__ = ["END", "EngineConfig", "KitEngine", "KitTokenizer", "LendingEngine"]

"""Constructed worlds on the toy domain, whose limiting coordinate is known.

The policy ends each reply with a listed letter, a vowel with probability sigmoid(w): that ``w`` is
all its weights. Before it may stand a clutter of listed consonants, which no training removes. The
base harness takes the first listed letter of a reply, so clutter hides the answer; the catalogue's
edit ``last-character`` reads past it. Training is RSFT on this policy, its gradient exact.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen

from whale_core.abilities import StepPlan
from whale_core.api import register
from whale_core.config import resolve
from whale_core.keys import content_hash
from whale_core.plugins import Setup
from whale_core.plugins.manager import load_plugins
from whale_core.records import Generation, GenerationRequest
from whale_core.roles import Edit, RolloutEngine, WeightContext, WeightStep
from whale_core.run.session import run
from whale_core.testing.engine import ScriptedEngine
from whale_core.testing.toy import CONSONANTS, VOWELS, DomainConfig, ToyDomain

STATE = "w.json"


@frozen
class World:
    """``w`` at the start, and how often clutter hides the answer."""

    w: float = 0.0
    clutter: float = 0.0
    model: str = "letters"


class LetterEngine(ScriptedEngine):
    """The policy; ``w`` is what ``save`` and ``load`` keep."""

    def __init__(self, world: World, setup: Setup) -> None:
        super().__init__(self._letter)
        self._world = world
        self.w = world.w
        self.generated = {"calls": 0, "prompt_tokens": 0, "sampled_tokens": 0}

    def _letter(self, prompt: str, rng: np.random.Generator) -> str:
        letters = prompt.rsplit("Letters: ", 1)[-1][:6]
        clutter, vowel = rng.random(2)
        kind = VOWELS if vowel < 1 / (1 + np.exp(-self.w)) else CONSONANTS
        last = next(letter for letter in letters if letter in kind)
        hidden = next(letter for letter in letters if letter in CONSONANTS)
        return (hidden if clutter < self._world.clutter else "") + last

    async def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        self.served = await self.weights_id()
        made = await super().generate(requests)
        self.generated["calls"] += len(requests)
        self.generated["prompt_tokens"] += sum(len(each.prompt_ids) for each in requests)
        self.generated["sampled_tokens"] += sum(len(each.token_ids) for each in made)
        return made

    async def weights_id(self) -> str:
        return content_hash(self._world.model, f"{self.w:.9f}")

    async def load(self, path: Path | None) -> str:
        self.w = self._world.w if path is None else json.loads((path / STATE).read_text())
        return await self.weights_id()

    async def save(self, path: Path) -> str:
        path.mkdir(parents=True, exist_ok=True)
        (path / STATE).write_text(json.dumps(self.w))
        return await self.weights_id()


@frozen
class TrainingConfig:
    prompts: int = 8
    group_size: int = 4
    lr: float = 8.0
    harness_mixture: int = 1


class LetterRSFT:
    """w rises by ``lr`` times the mean score-function gradient of the accepted replies."""

    def __init__(self, config: TrainingConfig, setup: Setup) -> None:
        self._config = config

    def steps_per_epoch(self, prompts: int) -> int:
        return prompts // self._config.prompts

    def planned_step(self) -> StepPlan:
        return StepPlan(self._config.prompts, self._config.group_size)

    async def steps(self, context: WeightContext) -> AsyncGenerator[WeightStep, None]:
        config, engine, step = self._config, context.engine, context.next_step
        assert isinstance(engine, LetterEngine)
        while True:
            prompts = context.next_prompts(config.prompts)
            best = context.best_harnesses(config.harness_mixture)
            harnesses = [best[i % len(best)] for i in range(len(prompts))]
            mixed = harnesses if config.harness_mixture > 1 else None
            groups = await context.rollout(prompts, config.group_size, step, mixed)
            made = [each for group in groups for each in group.trajectories]
            good = [each for each in made if each.reward > 0.5]
            vowel = [each.calls[0].text[-1] in VOWELS for each in good]
            p = 1 / (1 + np.exp(-engine.w))
            if good:
                engine.w += config.lr * (float(np.mean(vowel)) - float(p))
            yield WeightStep(
                step=step,
                prompts=len(prompts),
                rollouts=len(made),
                scored=len(made),
                accepted=len(good),
                reward=float(np.mean([each.reward for each in made])),
                updates=int(bool(good)),
                trained_tokens=sum(each.sampled_tokens for each in good),
            )
            step += 1

    async def save(self, path: Path) -> None:
        (path / "optimizer.json").write_text("{}")

    async def load(self, path: Path, engine: RolloutEngine) -> None:
        assert (path / "optimizer.json").is_file()


def edits(*names: str) -> tuple[Edit, ...]:
    return tuple(each for each in ToyDomain.catalogue if each.name in names)


class LetterDomain(ToyDomain):
    """The toy domain with one edit that helps and one that does not."""

    null_models: Any = ToyDomain.null_models[:1]
    catalogue: Any = edits("last-character", "terse")


class DeafDomain(LetterDomain):
    """No edit helps here."""

    catalogue: Any = edits("more-tokens", "terse")


def register_worlds(engines: list[LetterEngine]) -> None:
    """Register the parts; each engine that is built is added to ``engines``."""

    def engine(world: World, setup: Setup) -> LetterEngine:
        engines.append(LetterEngine(world, setup))
        return engines[-1]

    register("engine", "letters", engine, World)
    register("model_update", "letters", LetterRSFT, TrainingConfig)
    register("domain", "letters", LetterDomain, DomainConfig)
    register("domain", "deaf", DeafDomain, DomainConfig)


def settings(world: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a run's settings in a world."""
    return {
        "domain": {
            "name": "letters",
            "weight": 32,
            "harness": 8,
            "selection": 64,
            "test": 8,
            **more.pop("domain", {}),
        },
        "verifier": "toy",
        "engine": {"name": "letters", **world},
        "proposer": "mutation",
        "model_update": {"name": "letters", **more.pop("model_update", {})},
        "harness_search": {"name": "meta-harness", "candidates": 2},
        "scheduler": {"name": "fixed", "epochs": 0.25, "iterations": 3, "total_epochs": 0.5},
        "search": {"examples": 8, "draws": 2},
        "selection": {"examples": 8, "draws": 1},
        "test": {"examples": 8, "draws": 1},
        "rollout": {"jail": "process"},  # boots sooner
        **more,
    }


BOTH = {"w": 0.0, "clutter": 0.5}  # half hidden, half right: each alone gives a quarter


def run_world(folder: Path, **more: Any) -> None:
    """Make a whole run in the world where both are needed."""
    plugins = load_plugins()
    run(resolve(plugins, settings(BOTH, **more), [], {}), plugins, folder)

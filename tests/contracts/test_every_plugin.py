"""Every plugin that is installed here keeps the contract of its role."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from attrs import evolve
from contracts_kit import (
    domain_of,
    factory_and_config,
    installed,
    searched_workspace,
    settings_of_proposer,
    tiny_engine,
)

from whale_core.plugins import Setup
from whale_core.testing.contracts import (
    check_domain,
    check_engine,
    check_harness_search,
    check_model_update,
    check_proposer,
    check_registrations,
    check_scheduler,
    check_verifier,
)

MODULES = sorted({point.value for point in entry_points(group="whale")})
# keys of an example's content
HIDDEN = {"chess": ("moves",), "math": ("answer",), "searchqa": ("answers",)}


@pytest.mark.parametrize("module", MODULES)
def test_registrations(module: str) -> None:
    check_registrations(importlib.import_module(module))


@pytest.mark.parametrize("name", installed("domain"))
def test_domain(name: str) -> None:
    factory, config = factory_and_config("domain", name)
    own_verifier = factory(config, Setup(seed=0)).verifier
    verifier, settings = factory_and_config("verifier", own_verifier)
    check_domain(factory, config, verifier(settings, Setup(seed=0)), HIDDEN.get(name, ()))


# `llm-judge` asks an endpoint: tests/searchqa holds it to check_verifier, against a server.
@pytest.mark.parametrize("name", [name for name in installed("verifier") if name != "llm-judge"])
def test_verifier(name: str) -> None:
    check_verifier(*factory_and_config("verifier", name), domain_of(name))


# `openai` takes messages: tests/openai holds it to check_endpoint, against a server. `vllm` needs
# servers: tests/vllm holds it to check_engine, against a real one. `null-model` generates nothing:
# see tests/core/rollout/test_null_engine.py.
@pytest.mark.parametrize(
    "name", [name for name in installed("engine") if name not in ("openai", "vllm", "null-model")]
)
def test_engine(name: str) -> None:
    check_engine(*factory_and_config("engine", name))


@pytest.mark.parametrize("name", installed("model_update"))
def test_model_update(name: str) -> None:
    check_model_update(*factory_and_config("model_update", name), tiny_engine)


@pytest.mark.parametrize("name", installed("harness_search"))
def test_harness_search(name: str) -> None:
    check_harness_search(*factory_and_config("harness_search", name))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["confirmed", "halving"])
def test_harness_search_under_each_acceptance_rule(rule: str) -> None:
    factory, config = factory_and_config("harness_search", "meta-harness")
    check_harness_search(factory, evolve(config, acceptance=rule, confirm_best=2))


# Those that ask an endpoint: tests/metaharness/test_agent.py holds them to it, against a server.
ASKING = ("anthropic", "openai")


@pytest.mark.parametrize("name", [name for name in installed("proposer") if name not in ASKING])
def test_proposer(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    settings = settings_of_proposer(name, tmp_path)
    made = factory_and_config("proposer", name, **settings)
    check_proposer(*made, workspace=searched_workspace)


@pytest.mark.parametrize("name", installed("scheduler"))
def test_scheduler(name: str) -> None:
    check_scheduler(*factory_and_config("scheduler", name), phases=name != "evaluation-only")

"""The plugin sets `paper-*`, field by field beside what was published, and the page about them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from whale_core.config import Resolved, resolve
from whale_core.plugins.builtin import ONE_GPU, PAPER
from whale_core.plugins.manager import Plugins, load_plugins
from whale_core.run.outline import outlined
from whale_core.run.plan import never_rising, plan_run, walk
from whale_core.run.preview import preview

PAGE = (Path(__file__).parents[2] / "docs" / "paper.md").read_text(encoding="utf-8")
DOMAINS = ("searchqa", "math", "chess")

EVERYWHERE: dict[str, Any] = {
    "engine.name": "vllm",
    "engine.transport": "ray",
    "engine.replicas": 8,
    "engine.sleep": True,
    "engine.max_context": 32768,
    "model_update.name": "rsft",
    "model_update.trainer": "openrlhf",
    "model_update.prompts": 256,
    "model_update.group_size": 8,
    "model_update.lr": 1e-7,
    "model_update.minibatch": 64,
    "model_update.accept_above": 0.5,
    "model_update.min_accepted": 1,
    "model_update.loss": "token-mean",
    "model_update.openrlhf.ranks": 8,
    "harness_search.candidates": 3,
    "harness_search.acceptance": "argmax",
    "harness_search.space": "full",
    "harness_search.minimum_gain": 0.0,
    "harness_search.tie_costs": ["calls"],
    "proposer.name": "claude-code",
    "proposer.model": "claude-opus-4-7",
    "proposer.session_seconds": 2400,
    "scheduler.name": "fixed",
    "scheduler.epochs": 0.6,
    "scheduler.iterations": 6,
    "harness": "paper",
    "rollout.temperature": 1.0,
    "rollout.top_k": 20,
    "rollout.top_p": 1.0,
    "rollout.thinking": True,
    "search.examples": 256,
    "search.draws": 1,
    "search.shown": 256,
    "test.draws": 8,
    "checkpoint_steps": 7,
    "domain.harness": 256,
}
IN_DOMAIN: dict[str, dict[str, Any]] = {
    "searchqa": {
        "engine.model": "Qwen/Qwen3.5-2B",
        "verifier.name": "llm-judge",
        "verifier.model": "gpt-5.4-mini",
        "verifier.max_tokens": 256,
        "verifier.concurrency": 64,
        "verifier.fallback": "",
        "scheduler.total_epochs": 4,
        "domain.benchmarks": "hub",
        "domain.weight": 18946,
        "domain.test": 700,
        "domain.retriever.kind": "http",
        "test.examples": 700,
    },
    "math": {
        "engine.model": "Qwen/Qwen3.5-2B",
        "verifier.name": "strict-box",
        "scheduler.total_epochs": 6,
        "domain.source": "dapo",
        "domain.python.cpu_seconds": 30,
        "domain.python.memory_mb": 1024,
        "test.examples": 60,
    },
    "chess": {
        "engine.model": "Qwen/Qwen3.5-4B",
        "verifier.name": "chess-line",
        "scheduler.total_epochs": 4,
        "domain.weight": 16384,
        "domain.sampled_tokens": 8129,
        "test.examples": 256,
    },
}
STEPS = {"searchqa": 74, "math": 67, "chess": 64}  # an epoch; published: 74, 70, 64
TRAINED = {"searchqa": 606_208, "math": 823_296, "chess": 524_288}  # published: math 860,160


@cache
def loaded() -> Plugins:
    return load_plugins()


def made(name: str, *overrides: str) -> Resolved:
    return resolve(loaded(), name, (), overrides)


def at(tree: Any, path: str) -> Any:
    for part in path.split("."):
        tree = tree[part]
    return tree


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_field_is_as_published(domain: str) -> None:
    tree = made(f"paper-{domain}").tree
    wanted = {**EVERYWHERE, **IN_DOMAIN[domain]}
    assert {path: at(tree, path) for path in wanted} == wanted
    assert tree == made("paper-whale", f"domain={domain}").tree


@pytest.mark.parametrize("domain", DOMAINS)
def test_epochs_are_the_published_steps_and_rollouts(domain: str) -> None:
    resolved = made(f"paper-{domain}")
    outline = outlined(resolved, loaded())
    assert outline.facts.steps_per_epoch == STEPS[domain]
    by = plan_run(outline, resolved.core).by_purpose()
    phases = walk(outline.scheduler, outline.facts, never_rising).phases
    searches = sum(kind == "harness" for kind, _ in phases)
    assert searches == (9 if domain == "math" else 6)  # method 1.11
    assert by["train"].most == TRAINED[domain]
    assert by["score"].most == searches * 256 * (1 + 5 * 3)  # the launcher's 4,096 a search


def test_the_other_conditions_differ_in_their_condition_alone() -> None:
    for domain in DOMAINS:
        whale = made("paper-whale", f"domain={domain}").tree
        for name, keys in {
            "weight-only": {"scheduler", "harness_search", "proposer"},
            "harness-only": {"scheduler", "model_update", "engine"},
            "fst": {"harness_search"},
            "adaptive": {"scheduler"},
            "stagewise": {"scheduler"},
        }.items():
            tree = made(f"paper-{name}", f"domain={domain}").tree
            assert {key for key in whale if tree.get(key) != whale[key]} == keys, name
    scheduler = made("paper-harness-only", "domain=math").tree["scheduler"]
    assert scheduler == {"name": "harness-only", "iterations": 60}
    adaptive = made("paper-adaptive").tree["scheduler"]
    assert (adaptive["min_epochs"], adaptive["patience_iterations"]) == (0.2, 2)
    assert made("paper-fst").tree["harness_search"]["space"] == "prompt-only"


def test_engine_and_trainer_share_the_cluster_and_its_gpus() -> None:
    """One setting names the cluster for both; together they take each GPU once."""
    tree = made("paper-whale", "model_update.openrlhf.address=auto").tree
    engine, trainer = tree["engine"], tree["model_update"]["openrlhf"]
    assert engine["ray"]["address"] == trainer["address"] == "auto"
    assert engine["ray"]["gpus"] + trainer["gpus_per_rank"] == 1.0
    assert engine["replicas"] == trainer["ranks"] * trainer["nodes"]
    assert engine["sleep"] and trainer["offload"]
    alone = made("paper-harness-only").tree["engine"]
    assert alone["ray"] == {"address": "local", "gpus": 1.0}
    assert (alone["sleep"], alone["gpu_memory"]) == (False, 0.9)


def test_the_proposer_can_be_chosen() -> None:
    tree = made("paper-chess", "proposer=anthropic", "proposer.model=claude-opus-4-7").tree
    assert tree["proposer"]["name"] == "anthropic"


def test_the_page_names_every_set_and_field_that_is_compared() -> None:
    for name in PAPER:
        assert f"`paper-{name}`" in PAGE, name
    for path in {*EVERYWHERE, *(path for each in IN_DOMAIN.values() for path in each)}:
        assert f"`{path}`" in PAGE, path


@pytest.mark.parametrize("name", ONE_GPU)
def test_a_set_for_one_gpu_can_be_planned_without_one(name: str) -> None:
    resolved = made(name)
    assert resolved.tree["model_update"]["lora"]["rank"] > 0
    assert resolved.tree["engine"]["device"] == "cuda"
    assert outlined(resolved, loaded()).facts.steps_per_epoch == 15


def test_a_plan_needs_no_gpu_model_or_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # where there is no puzzle file
    made_plan = preview(made("paper-chess"), loaded(), tmp_path)
    assert made_plan.calibration is None and made_plan.footprint is not None
    assert made_plan.footprint.sampled_tokens == 8129 * made_plan.plan.rollouts.known
    assert sum(made_plan.footprint.serving.values()) < 0.55 * 80
    assert any("nothing of this is measured" in note for note in made_plan.notes)

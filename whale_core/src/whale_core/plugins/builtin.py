"""What whale-core registers itself, through the same hooks as everybody else."""

from __future__ import annotations

from whale_core.plugins import Registration, hookimpl
from whale_core.plugins.sets import PluginSet


@hookimpl
def whale_register_domains() -> list[Registration]:
    """Register the toy domain, for smoke runs and tests of plugins."""
    return [
        Registration(
            name="toy",
            factory="whale_core.testing.toy:ToyDomain",
            config="whale_core.testing.toy:DomainConfig",
            summary="a made-up task that takes milliseconds; shows that the parts fit together",
        )
    ]


@hookimpl
def whale_register_verifiers() -> list[Registration]:
    """Register the toy domain's verifier."""
    return [
        Registration(
            name="toy",
            factory="whale_core.testing.toy:ToyVerifier",
            config="whale_core.testing.toy:VerifierConfig",
            summary="judges the toy domain",
        )
    ]


FIRST = {
    "default": "search QA, weights and harness in turn, a small model on two CPU cores",
    "weight-only": "the settings of default, the harness left as it is",
    "harness-only": "the settings of default, the weights left as they are",
    "fst": "weights and prompts in turn: default, but the search may change prompts alone",
    "smoke": "toy domain and tiny random model: every part runs once, in seconds",
}
LAPTOP = {
    "whale": "WHALE (0.6, 6) in small: about 1,500 rollouts on two CPU cores",
    "weight-only": "the weights alone, at the rollouts of laptop-whale",
    "harness-only": "the harness alone, at the rollouts of laptop-whale",
    "fst": "laptop-whale, but the search may change prompts alone",
    "adaptive": "the published patience, at the rollouts of laptop-whale",
    "stagewise": "the steps of laptop-whale, then its searches as one",
    "order-swap": "laptop-whale with the harness first in each cycle",
    "final-search": "laptop-whale with its last search under the last weights",
    "sweep-0.2-2": "laptop-whale with the schedule (0.2, 2)",
    "sweep-0.2-6": "laptop-whale with the schedule (0.2, 6)",
    "sweep-0.6-2": "laptop-whale with the schedule (0.6, 2)",
    "sweep-0.6-6": "laptop-whale by its name in the sweep",
    "sweep-1.0-10": "laptop-whale with the schedule (1.0, 10)",
    "random-edits": "a control: laptop-whale with edits drawn at random",
}
CONTROLS = {  # these spend the same on other phases, or on none
    "best-of-n": "a control: no learning, the rollouts of laptop-whale as draws of the first pair",
    "null": "a control: no model, the chance floor of the first harness",
    "diagnostic": "phases go to what gains more per rollout, at the rollouts of laptop-whale",
}


@hookimpl
def whale_register_rollout_engines() -> list[Registration]:
    """Register the engine that serves no model."""
    return [
        Registration(
            name="null-model",
            factory="whale_core.rollout.null_engine:NullEngine",
            config="whale_core.rollout.null_engine:NullEngineConfig",
            summary="no model: a null model of the domain answers, the chance floor of a harness",
        )
    ]


# Beside vLLM, OpenRLHF goes in without what it asks for: docs/cluster.md.
CLUSTER = ("whale-vllm[ray]", "whale-rsft", "whale-chess", "whale-math")
PAPER = {
    "whale": "the published WHALE (0.6, 6) on 8 GPUs; domain= chooses the domain",
    "searchqa": "paper-whale in search QA",
    "math": "paper-whale in math",
    "chess": "paper-whale in chess",
    "weight-only": "the published weight-only condition",
    "harness-only": "the published harness-only condition",
    "fst": "the published FST control: prompts alone",
    "adaptive": "the published adaptive WHALE",
    "stagewise": "the published stagewise control",
}
ONE_GPU = {
    "one-gpu": "WHALE with LoRA on one GPU; domain= chooses the domain",
    "one-gpu-searchqa": "one-gpu in search QA",
    "one-gpu-math": "one-gpu in math",
    "one-gpu-chess": "one-gpu in chess",
}


@hookimpl
def whale_register_plugin_sets() -> list[PluginSet]:
    """Register the plugin sets that come with the core."""
    first = [_shipped(name, summary) for name, summary in FIRST.items()]
    laptop = [
        _shipped(f"laptop-{name}", summary, "whale-chess")
        for name, summary in {**LAPTOP, **CONTROLS}.items()
    ]
    paper = [_shipped(f"paper-{name}", summary, *CLUSTER) for name, summary in PAPER.items()]
    one = [
        _shipped(name, summary, "whale-chess", "whale-math") for name, summary in ONE_GPU.items()
    ]
    return [*first, *laptop, *paper, *one]


def _shipped(name: str, summary: str, *requires: str) -> PluginSet:
    resource = f"whale_core:plugin_sets/{name}.yaml"
    return PluginSet(name, resource, summary, ("whale-core[default]", *requires))

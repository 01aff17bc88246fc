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


@hookimpl
def whale_register_plugin_sets() -> list[PluginSet]:
    """Register the plugin sets that come with the core."""
    summaries = {
        "default": "search QA, weights and harness in turn, a small model on two CPU cores",
        "weight-only": "the settings of default, the harness left as it is",
        "harness-only": "the settings of default, the weights left as they are",
        "fst": "weights and prompts in turn: default, but the search may change prompts alone",
        "smoke": "toy domain and tiny random model: every part runs once, in seconds",
    }
    return [
        PluginSet(
            name, f"whale_core:plugin_sets/{name}.yaml", summary, requires=("whale-core[default]",)
        )
        for name, summary in summaries.items()
    ]

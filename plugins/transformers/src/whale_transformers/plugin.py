"""Entry point of the distribution: registers the rollout engine (imports no torch)."""

from __future__ import annotations

from whale_core.plugins import Registration, hookimpl


@hookimpl
def whale_register_rollout_engines() -> list[Registration]:
    """Return the embedded engine."""
    return [
        Registration(
            name="transformers",
            factory="whale_transformers.engine:TransformersEngine",
            config="whale_transformers.config:Config",
            summary="Embedded, batch-invariant engine over a Hugging Face causal language model",
        )
    ]

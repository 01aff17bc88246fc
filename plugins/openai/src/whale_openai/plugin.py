"""Entry point of the distribution: registers the rollout engine (does not import the SDK)."""

from __future__ import annotations

from whale_core.plugins import Registration, hookimpl


@hookimpl
def whale_register_rollout_engines() -> list[Registration]:
    """Return the endpoint's engine."""
    return [
        Registration(
            name="openai",
            factory="whale_openai.engine:OpenAIEngine",
            config="whale_openai.config:Config",
            summary="Any OpenAI-compatible chat endpoint: for search, evaluation and training rows",
        )
    ]

"""Entry point of the distribution: registers the rollout engine (imports nothing heavy)."""

from __future__ import annotations

from whale_core.plugins import Registration, hookimpl


@hookimpl
def whale_register_rollout_engines() -> list[Registration]:
    """Return the engine over vLLM."""
    return [
        Registration(
            name="vllm",
            factory="whale_vllm.engine:VLLMEngine",
            config="whale_vllm.config:Config",
            summary="vLLM in servers, started or running, or in Ray actors; takes updated weights",
        )
    ]

"""The entry point: what this package registers. Nothing heavy is imported here."""

from __future__ import annotations

from whale_core.plugins import Registration, hookimpl


@hookimpl
def whale_register_model_updates() -> list[Registration]:
    """Return the weight update ``clipped-pg``."""
    return [
        Registration(
            name="clipped-pg",
            factory="whale_example_policy_gradient.update:ClippedPolicyGradient",
            config="whale_example_policy_gradient.config:Config",
            summary="policy gradient: group-normalised advantages, clipped importance ratio",
        )
    ]

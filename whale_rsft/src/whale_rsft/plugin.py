"""Entry point of the package: what it registers. Light, heavy code is named as strings."""

from __future__ import annotations

from whale_core.plugins import Registration, hookimpl


@hookimpl
def whale_register_model_updates() -> list[Registration]:
    """Return the ModelUpdates of this package."""
    return [
        Registration(
            name="rsft",
            factory="whale_rsft.rsft:RSFT",
            config="whale_rsft.config:Config",
            summary="online rejection sampling: train on the accepted rollouts, token mean",
        )
    ]
